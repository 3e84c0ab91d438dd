// Builds licensing-go.zip, the archive of the module in the form of module proxies, in a folder: go run ./internal/module FOLDER. It
// prints the version of the module. The same sources give the same bytes.
package main

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	module  = "licensing.example/licensing"
	version = "v0.1.0"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/module FOLDER")
		os.Exit(2)
	}
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(version)
}

func build(folder string) error {
	target, err := os.Create(filepath.Join(folder, "licensing-go.zip"))
	if err != nil {
		return err
	}
	defer target.Close()
	archive := zip.NewWriter(target)
	files, err := filepath.Glob("*.go")
	if err != nil {
		return err
	}
	for _, path := range append(files, "go.mod", "README.md", "../../LICENSE") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entry, err := archive.Create(module + "@" + version + "/" + filepath.Base(path))
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return archive.Close()
}
