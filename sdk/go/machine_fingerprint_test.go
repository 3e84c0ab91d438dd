package licensing

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func fingerprintAt(t *testing.T, file string) string {
	t.Helper()
	found, err := MachineFingerprint(FingerprintOptions{AppID: "app_1", File: file})
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(found) {
		t.Fatal(found, err)
	}
	return found
}

func TestAFingerprintIsTheSameEachTimeAndDifferentForAnotherApplication(t *testing.T) {
	one, other := fingerprintAt(t, ""), fingerprintAt(t, "")
	another, err := MachineFingerprint(FingerprintOptions{AppID: "app_2"})
	if one != other || one == another || err != nil {
		t.Fatal(one, other, another, err)
	}
}

func TestAFingerprintIsTheHashThatAllLanguagesMakeOfTheIdInAFile(t *testing.T) {
	// printf 'app_1\nmachine-7' | sha256sum
	expected := "53bde91eb1f0574114aa49f03e07e0221d77f53b33b5250bc3589c90f5e86cce"
	for _, text := range []string{"machine-7", "  machine-7\r\n", "\n\nmachine-7\nother", "\x00\x00machine-7", "\uFEFFmachine-7\u00A0"} {
		file := filepath.Join(t.TempDir(), "id")
		_ = os.WriteFile(file, []byte(text), 0o444)
		if found := fingerprintAt(t, file); found != expected {
			t.Fatalf("%q: %s", text, found)
		}
	}
}

func TestAFingerprintFailsIfItsFileCanBeNeitherReadNorWritten(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	_ = os.WriteFile(plain, nil, 0o600)
	if found, err := MachineFingerprint(FingerprintOptions{AppID: "app_1", File: filepath.Join(plain, "id")}); err == nil {
		t.Fatal(found)
	}
}

func TestProcessesThatStartAtOnceHaveOneFingerprint(t *testing.T) {
	folder := t.TempDir()
	_ = os.WriteFile(filepath.Join(folder, "blank"), []byte("\n"), 0o600)
	_ = os.WriteFile(filepath.Join(folder, "never-written"), make([]byte, 37), 0o600)
	_ = os.Mkdir(filepath.Join(folder, "elsewhere"), 0o755)
	_ = os.Symlink("elsewhere/id", filepath.Join(folder, "link"))
	for _, name := range []string{"volume-1/id", "volume-2/id", "blank", "never-written", "link"} {
		outputs := make(chan string)
		for range 6 {
			go func() {
				output, err := again("ID_FILE=" + filepath.Join(folder, name)).CombinedOutput()
				outputs <- fmt.Sprint(string(output), err)
			}()
		}
		expected := fmt.Sprint(fingerprintAt(t, filepath.Join(folder, name)), " <nil>\n<nil>")
		for range 6 {
			if output := <-outputs; output != expected {
				t.Fatalf("%s: %q instead of %q", name, output, expected)
			}
		}
	}
	if names := namesIn(t, filepath.Join(folder, "volume-1")); len(names) != 1 {
		t.Fatal(names)
	}
}

func TestTheIdOfAMachineIsNoPlaceholder(t *testing.T) {
	const good = "8f3c1c0e6d5b4a2f9e8d7c6b5a493827"
	nothing := func(...string) string { return "" }
	for _, placeholder := range []string{
		"uninitialized\n", "", "\n", "00000000000000000000000000000000\n", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90AB-CDDEEFAABBCC", "None", "To be filled by O.E.M.",
	} {
		files := map[string]string{"/etc/machine-id": placeholder, "/var/lib/dbus/machine-id": good + "\n"}
		if id := machineID("linux", func(path string) string { return files[path] }, nothing); id != good {
			t.Fatalf("%q: %s", placeholder, id)
		}
		print := func(command ...string) string {
			if command[0] == "ioreg" {
				return `    "IOPlatformUUID" = "` + strings.TrimSpace(placeholder) + `"`
			}
			return "    MachineGuid    REG_SZ    " + strings.TrimSpace(placeholder) + "\r\n"
		}
		for _, system := range []string{"darwin", "windows"} {
			if id := machineID(system, nil, print); id != "" {
				t.Fatalf("%s: %s", system, id)
			}
		}
	}
}

func TestTheIdOfAMachineIsThatOfItsOperatingSystem(t *testing.T) {
	const guid = "B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C"
	mac := func(...string) string { return `"IOPlatformUUID" = "` + guid + `"` }
	// The registry of 64 bits has it, also for a program of 32 bits.
	windows := func(command ...string) string {
		if strings.Contains(strings.Join(command, " "), "/reg:64") {
			return "    MachineGuid    REG_SZ    " + guid + "\r\n\r\n"
		}
		return ""
	}
	if one, other := machineID("darwin", nil, mac), machineID("windows", nil, windows); one != guid || other != guid {
		t.Fatal(one, other)
	}
}
