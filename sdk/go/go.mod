module licensing.example/licensing

go 1.22
