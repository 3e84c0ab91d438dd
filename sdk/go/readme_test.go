package licensing

import (
	"archive/zip"
	"context"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// goIn runs the go command in a folder, and returns what it prints on standard output.
func goIn(t *testing.T, folder string, arguments ...string) string {
	t.Helper()
	process := exec.Command("go", arguments...)
	process.Dir = folder
	process.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	output, err := process.Output()
	if err != nil {
		t.Fatal(arguments, err, string(err.(*exec.ExitError).Stderr))
	}
	return string(output)
}

// The test does with the archive as the README says.
func TestTheProgramsOfTheReadmeRunWithTheModuleInTheArchive(t *testing.T) {
	server := startServer(t)
	options := server.options()
	folder := t.TempDir()
	if version := goIn(t, ".", "run", "./internal/module", folder); version != "v0.1.0\n" {
		t.Fatal(version)
	}
	archive, err := zip.OpenReader(filepath.Join(folder, "licensing-go.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	names := []string{}
	library := filepath.Join(folder, "third_party", "licensing")
	_ = os.MkdirAll(library, 0o755)
	for _, file := range archive.File {
		name, isInModule := strings.CutPrefix(file.Name, "licensing.example/licensing@v0.1.0/")
		source, err := file.Open()
		if !isInModule || err != nil {
			t.Fatal(file.Name, err)
		}
		text, _ := io.ReadAll(source)
		_ = os.WriteFile(filepath.Join(library, name), text, 0o600)
		names = append(names, name)
	}
	for _, name := range []string{"go.mod", "LICENSE", "README.md", "client.go"} {
		if !slices.Contains(names, name) {
			t.Fatal(names)
		}
	}

	readme := textAt(t, "README.md")
	for _, block := range regexp.MustCompile("(?sm)^```go (\\S+)\n(.*?)^```").FindAllStringSubmatch(readme, -1) {
		text := strings.NewReplacer(
			"https://licensing.example.com", server.URL, "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF", options.LicenceKey,
			"lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8", server.rootKey,
		).Replace(block[2])
		_ = os.WriteFile(filepath.Join(folder, block[1]), []byte(text), 0o600)
	}
	goIn(t, folder, "mod", "init", "acme")
	installation := regexp.MustCompile(`(?m)^go (mod edit .*)$`).FindStringSubmatch(readme)
	goIn(t, folder, strings.Fields(installation[1])...)
	goIn(t, folder, "vet", ".")
	for range 2 {
		if output := goIn(t, folder, "run", "."); output != "export: true projects: 25\n" {
			t.Fatal(output)
		}
	}
	if count := server.count("POST"); count != 1 {
		t.Fatal("the second start needed the network", server.seen())
	}
}

// wordsOf are the texts of all constants of a type.
func wordsOf(t *testing.T, of string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, isSpec := node.(*ast.ValueSpec); isSpec && spec.Type != nil {
			if name, isName := spec.Type.(*ast.Ident); isName && name.Name == of {
				word, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				words[word] = true
			}
		}
		return true
	})
	return words
}

func TestTheWordsAreThoseOfTheDesign(t *testing.T) {
	design := textAt(t, "../README.md")
	rows := func(heading string) [][]string {
		_, text, _ := strings.Cut(design, "\n## "+heading+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		var found [][]string
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "| ") {
				found = append(found, strings.Split(line, "|"))
			}
		}
		return found[2:]
	}
	marked := regexp.MustCompile("`([a-z_]+)`")
	words := func(cell string, into map[string]bool) {
		for _, match := range marked.FindAllStringSubmatch(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cell, ""), -1) {
			into[match[1]] = true
		}
	}
	reasons, operations, statuses := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, row := range rows("Reasons") {
		if strings.Contains(row[1], "operation") {
			words(row[3], operations)
		} else {
			words(row[3], reasons)
		}
	}
	for _, row := range rows("The table of states") {
		words(row[2], statuses)
	}
	// Go always has Ed25519.
	delete(reasons, "unsupported_runtime")
	if found := wordsOf(t, "Reason"); !maps.Equal(found, reasons) {
		t.Error(found, reasons)
	}
	if found := wordsOf(t, "Operation"); !maps.Equal(found, operations) {
		t.Error(found, operations)
	}
	if found := wordsOf(t, "Status"); !maps.Equal(found, statuses) {
		t.Error(found, statuses)
	}

	table := map[string]map[string]string{}
	calls := []string{}
	for _, row := range rows("Requests and answers") {
		if strings.Contains(row[1], "status and code") {
			for _, cell := range row[2:6] {
				calls = append(calls, strings.Trim(cell, " `"))
			}
		} else if len(calls) > 0 && len(row) > 5 && !strings.HasPrefix(row[1], " ---") {
			for at, call := range calls {
				if word := strings.Trim(row[at+2], " `"); word != "" {
					if table[call] == nil {
						table[call] = map[string]string{}
					}
					table[call][strings.Trim(row[1], " `")] = word
				}
			}
		}
	}
	found := map[string]map[string]string{}
	for operation, byCode := range refusals {
		found[string(operation)] = map[string]string{}
		for code, reason := range byCode {
			found[string(operation)][code] = string(reason)
		}
	}
	if !maps.EqualFunc(found, table, maps.Equal[map[string]string, map[string]string]) {
		t.Error(found, table)
	}
}

func ExampleClient_Activate() {
	client, err := New(Options{RootKey: Unpinned})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	os.Stdout.WriteString(string(client.Activate(context.Background()).Reason))
	// Output: no_licence_key
}
