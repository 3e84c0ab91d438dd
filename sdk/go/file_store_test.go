package licensing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests run this program again as another process of a product.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("ADD_LINES") != "":
		addLines(FileStore(os.Getenv("ADD_LINES")), os.Getenv("LINE"))
	case os.Getenv("ID_FILE") != "":
		fingerprint, err := MachineFingerprint(FingerprintOptions{AppID: "app_1", File: os.Getenv("ID_FILE")})
		fmt.Println(fingerprint, err)
	default:
		os.Exit(m.Run())
	}
}

// addLines adds lines to the text of a store, and prints each one that was added. A victim goes on until it is killed.
func addLines(store Store, name string) {
	for at := 0; at < 20 || strings.HasPrefix(name, "victim"); at++ {
		line := fmt.Sprintf("%s-%d\n", name, at)
		err := store.(Updater).Update(context.Background(), func(text []byte) ([]byte, error) {
			return append(text, line...), nil
		})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Print(line)
	}
}

// again runs this program as another process.
func again(environment ...string) *exec.Cmd {
	process := exec.Command(os.Args[0])
	// The race detector would let each process sleep at its end.
	process.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), environment...)
	return process
}

func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func textAt(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAFileStoreReturnsTheTextThatWasWrittenLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acme", "data", "licence.json")
	store := FileStore(path)
	if text, err := store.Read(background); text != nil || err != nil {
		t.Fatal(text, err)
	}
	for _, text := range []string{"one", "two", ""} {
		if err := store.Write(background, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if found, err := store.Read(background); string(found) != text || found == nil || err != nil {
			t.Fatal(found, err)
		}
	}
	if at, _ := os.Stat(path); at.Mode().Perm() != 0o600 {
		t.Fatal(at.Mode())
	}
	if names := namesIn(t, filepath.Dir(path)); len(names) != 1 {
		t.Fatal(names)
	}
}

func TestAFileStoreFollowsSymbolicLinks(t *testing.T) {
	folder := t.TempDir()
	_ = os.Mkdir(filepath.Join(folder, "data"), 0o755)
	_ = os.Symlink("data/licence.json", filepath.Join(folder, "link"))
	store := FileStore(filepath.Join(folder, "link"))
	for _, text := range []string{"one", "two"} {
		if err := store.Write(background, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	at, _ := os.Lstat(filepath.Join(folder, "link"))
	if text := textAt(t, filepath.Join(folder, "data", "licence.json")); text != "two" || at.Mode()&fs.ModeSymlink == 0 {
		t.Fatal(text, at.Mode())
	}
}

func TestAnUpdateIsRepeatedIfAnotherProcessHasWritten(t *testing.T) {
	store := FileStore(filepath.Join(t.TempDir(), "licence.json"))
	var seen []string
	err := store.(Updater).Update(background, func(text []byte) ([]byte, error) {
		seen = append(seen, string(text))
		if text == nil {
			_ = store.Write(background, []byte("theirs"))
		}
		return append(text, " and mine"...), nil
	})
	text, _ := store.Read(background)
	if err != nil || !slices.Equal(seen, []string{"", "theirs"}) || string(text) != "theirs and mine" {
		t.Fatal(err, seen, string(text))
	}
}

func TestAFileStoreFailsIfItsFileCannotExist(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	_ = os.WriteFile(plain, nil, 0o600)
	store := FileStore(filepath.Join(plain, "licence.json"))
	_, err := store.Read(background)
	if !errors.Is(err, syscall.ENOTDIR) || !errors.Is(store.Write(background, nil), syscall.ENOTDIR) {
		t.Fatal(err)
	}
}

func TestAFileStoreCompletesTheWriteOfAProcessThatWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "licence.json")
	_ = os.WriteFile(path, []byte("one"), 0o600)
	// The process was killed after it had written the new text, and before it renamed it into place.
	_ = os.WriteFile(path+".after-"+digest([]byte("one")), []byte("two"), 0o600)
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	add := func(text []byte) ([]byte, error) { return append(text, " three"...), nil }
	store := FileStore(path).(Updater)
	if err := store.Update(ctx, add); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := store.Update(background, add); err != nil || textAt(t, path) != "two three" {
		t.Fatal(err, textAt(t, path))
	}
}

func TestProcessesOnOneStoreLoseNothingWhileOthersAreKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "licence.json")
	var all sync.WaitGroup
	var mu sync.Mutex
	var added []string
	for worker := range 6 {
		all.Add(1)
		go func() {
			defer all.Done()
			isVictim := worker >= 4
			name := fmt.Sprint("worker-", worker)
			if isVictim {
				name = fmt.Sprint("victim-", worker)
			}
			process := again("ADD_LINES="+path, "LINE="+name)
			output, _ := process.StdoutPipe()
			if err := process.Start(); err != nil {
				t.Error(err)
				return
			}
			lines := bufio.NewScanner(output)
			for count := 0; lines.Scan(); count++ {
				mu.Lock()
				added = append(added, lines.Text())
				mu.Unlock()
				if isVictim && count == 4 {
					_ = process.Process.Kill()
				}
			}
			if err := process.Wait(); (err != nil) != isVictim {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	lines := strings.Fields(textAt(t, path))
	for _, line := range added {
		if !slices.Contains(lines, line) {
			t.Fatalf("%s is lost", line)
		}
	}
	if len(added) < 90 || len(lines) > len(added)+2 {
		t.Fatal(len(added), len(lines))
	}
}

// gatedStore lets a save wait between its read and its write.
type gatedStore struct {
	Store
	mu   sync.Mutex
	held chan struct{}
	open chan struct{}
}

func (g *gatedStore) Update(ctx context.Context, change func([]byte) ([]byte, error)) error {
	return g.Store.(Updater).Update(ctx, func(text []byte) ([]byte, error) {
		next, err := change(text)
		g.mu.Lock()
		held, open := g.held, g.open
		g.held, g.open = nil, nil
		g.mu.Unlock()
		if held != nil {
			close(held)
			<-open
		}
		return next, err
	})
}

// begin begins a call, and returns when its save has read the store and not yet written. The result lets it write.
func (g *gatedStore) begin(call func(context.Context) State) (end func() State) {
	held, open, done := make(chan struct{}), make(chan struct{}), make(chan State)
	g.mu.Lock()
	g.held, g.open = held, open
	g.mu.Unlock()
	go func() { done <- call(background) }()
	<-held
	return func() State {
		close(open)
		return <-done
	}
}

func TestTwoProcessesWithOneStoreKeepWhatEachLearns(t *testing.T) {
	// A capital begins a save, a small letter ends it.
	for _, order := range []string{"AaBb", "ABab", "ABba", "BAab", "BAba", "BbAa"} {
		t.Run(order, func(t *testing.T) {
			server := startServer(t)
			options := server.options()
			options.Timeout = time.Minute
			path := filepath.Join(t.TempDir(), "licence.json")
			start := func() (*Client, *gatedStore) {
				store := &gatedStore{Store: FileStore(path)}
				options.Store = store
				return newClient(t, options), store
			}
			a, storeA := start()
			b, storeB := start()
			interleave := func(call func(context.Context) State) {
				ends := map[rune]func() State{}
				for _, letter := range order {
					switch letter {
					case 'A':
						ends['a'] = storeA.begin(call)
					case 'B':
						ends['b'] = storeB.begin(b.Ready)
					default:
						ends[letter]()
					}
				}
			}
			later := func() State {
				offline := options
				offline.BaseURL, offline.Store = "http://127.0.0.1:9", FileStore(path)
				return newClient(t, offline).Ready(background)
			}
			a.Activate(background)
			a.Check(background)
			expect(t, b.Activate(background), "licensed")

			server.mu.Lock()
			server.rotateKey()
			server.tokenLife = 48 * time.Hour
			server.mu.Unlock()
			interleave(a.Refresh)
			if state := later(); state.Status != StatusLicensed || time.Until(state.ExpiresAt) < 47*time.Hour {
				t.Fatal("the renewed token is lost", state)
			}

			interleave(a.Deactivate)
			expect(t, later(), "unlicensed not_activated")
			expect(t, b.Ready(background), "unlicensed deactivated")

			a.Activate(background)
			b.Ready(background)
			server.revoke(options.LicenceKey)
			interleave(a.Check)
			expect(t, later(), "refused revoked")
			expect(t, b.Ready(background), "refused revoked")
		})
	}
}

func TestAStoreOnADiskThatCannotBeWritten(t *testing.T) {
	if exec.Command("unshare", "--mount", "--map-root-user", "true").Run() != nil {
		t.Skip("no mounts can be made here")
	}
	for name, disk := range map[string]struct{ mount, expected string }{
		"a full disk":                   {`mount -t tmpfs -o size=16k tmpfs "$0/d" && { cat /dev/zero > "$0/d/all" 2>&-; true; }`, "exit status 1"},
		"a read-only disk":              {`mount -t tmpfs -o ro tmpfs "$0/d"`, "exit status 1"},
		"a single file that is mounted": {`touch "$0/file" "$0/d/licence.json" && mount --bind "$0/file" "$0/d/licence.json"`, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			_ = os.Mkdir(filepath.Join(folder, "d"), 0o755)
			process := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-c", disk.mount+` && exec "$@"`, folder, os.Args[0])
			process.Env = append(os.Environ(), "ADD_LINES="+filepath.Join(folder, "d", "licence.json"), "LINE=x")
			output, err := process.CombinedOutput()
			if fmt.Sprint(err) != disk.expected {
				t.Fatal(err, string(output))
			}
			if err == nil && strings.Count(textAt(t, filepath.Join(folder, "file")), "\n") != 20 {
				t.Fatal(textAt(t, filepath.Join(folder, "file")))
			}
		})
	}
}

func TestATextOfAnyBytesInTheStoreIsIgnored(t *testing.T) {
	server := startServer(t)
	options := server.options()
	path := filepath.Join(t.TempDir(), "licence.json")
	options.Store = FileStore(path)
	activation := newClient(t, options).Activate(background).ActivationID
	whole := textAt(t, path)
	for _, text := range []string{"", whole[:len(whole)/2], strings.Repeat("\x00", len(whole)), "\xFF", "[]"} {
		_ = os.WriteFile(path, []byte(text), 0o600)
		client := newClient(t, options)
		expect(t, client.Ready(background), "unlicensed store_corrupt")
		if state := client.Activate(background); state.ActivationID != activation {
			t.Fatal(state)
		}
	}
}
