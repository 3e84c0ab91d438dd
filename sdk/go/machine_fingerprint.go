package licensing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// FingerprintOptions are the options of [MachineFingerprint].
type FingerprintOptions struct {
	// AppID is the application's id: the same machine has another fingerprint in another application.
	AppID string
	// File keeps a random id, which is used instead of the machine's own. It is for containers, which have no id or share the one of
	// their image: put the file on a volume. Processes that start at the same time use one id.
	File string
}

// MachineFingerprint is a fingerprint of this machine: 64 hexadecimal characters, the same at every start and in every language. It
// is a hash, so the machine's own id is not sent. An id that many machines share (uninitialized, zeros, a vendor's placeholder) is
// skipped. If the machine has no id, its host name is used. It fails only if File is given and can be neither read nor written.
//
//	fingerprint, err := licensing.MachineFingerprint(licensing.FingerprintOptions{AppID: "app_01k…"})
func MachineFingerprint(options FingerprintOptions) (string, error) {
	var id string
	if options.File != "" {
		kept, err := keptID(options.File)
		if err != nil {
			return "", err
		}
		id = kept
	} else if id = machineID(runtime.GOOS, fileContent, output); id == "" {
		id, _ = os.Hostname()
	}
	sum := sha256.Sum256([]byte(options.AppID + "\n" + id))
	return hex.EncodeToString(sum[:]), nil
}

// keptID is the id in a file; a new one if there is none yet.
func keptID(file string) (string, error) {
	path, err := target(file)
	if err != nil {
		return "", err
	}
	if id, err := firstLine(path); id != "" || err != nil {
		return id, err
	}
	line := []byte(randomUUID() + "\n")
	// Created exclusively, so that one of several processes decides. If that is not possible, because the file exists and is empty or
	// because the file system has no links, the first line that is appended decides.
	_ = createFile(path, line)
	id, err := firstLine(path)
	if id == "" && err == nil {
		if err = writeFile(path, os.O_CREATE|os.O_APPEND, line); err == nil {
			id, err = firstLine(path)
		}
	}
	if id == "" && err == nil {
		err = fmt.Errorf("licensing: %s does not keep what is written to it", file)
	}
	return id, err
}

// firstLine is the first line of a file that is not blank; empty if there is none. After a crash, text that was not written to the
// disk yet reads as NUL characters.
func firstLine(path string) (string, error) {
	text, err := readText(path)
	if err != nil {
		return "", err
	}
	// Bytes that are not UTF-8 count as the replacement character.
	known := strings.ReplaceAll(string([]rune(string(text))), "\x00", "")
	for _, line := range strings.FieldsFunc(known, func(character rune) bool { return character == '\r' || character == '\n' }) {
		if trimmed := strings.TrimFunc(line, isBlank); trimmed != "" {
			return trimmed, nil
		}
	}
	return "", nil
}

var (
	macPattern     = regexp.MustCompile(`"IOPlatformUUID" = "(.+?)"`)
	windowsPattern = regexp.MustCompile(`MachineGuid\s+REG_SZ\s+(.+)`)
)

// machineID is the id that the operating system gives the machine; empty if it has none of its own. file returns the text of a file,
// and output that of a command; empty if that fails.
func machineID(system string, file func(path string) string, output func(command ...string) string) string {
	first := func(pattern *regexp.Regexp, text string) string {
		if match := pattern.FindStringSubmatch(text); match != nil {
			return match[1]
		}
		return ""
	}
	var ids []string
	switch system {
	case "darwin":
		ids = []string{first(macPattern, output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))}
	case "windows":
		// A program of 32 bits is shown another registry, which has no such value.
		key := `HKLM\SOFTWARE\Microsoft\Cryptography`
		ids = []string{first(windowsPattern, output("reg", "query", key, "/v", "MachineGuid", "/reg:64"))}
	default:
		ids = []string{file("/etc/machine-id"), file("/var/lib/dbus/machine-id")}
	}
	for _, id := range ids {
		if trimmed := strings.TrimFunc(id, isBlank); !isPlaceholder(trimmed) {
			return trimmed
		}
	}
	return ""
}

func fileContent(path string) string {
	text, _ := os.ReadFile(path)
	return string([]rune(string(text)))
}

func output(command ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	hideWindow(process)
	printed, err := process.Output()
	if err != nil {
		return ""
	}
	return string(printed)
}

// placeholders are texts that many machines have instead of an id: systemd's before the first boot, and the defaults of firmware
// whose maker wrote no id. Letters and digits only, in lower case.
var placeholders = strings.Fields(`
	uninitialized none null unknown na notapplicable notavailable notspecified notsettable invalid default defaultstring
	systemserialnumber serialnumber tobefilledbyoem oem oemstring
	03000200040005000006000700080009 00020003000400050006000700080009
	123456781234567890abcddeefaabbcc 1234567812345678123456789abcdef0 12345678901234567890123456789012
	0123456789abcdef0123456789abcdef 4c4c454400002010802080c04f202020 fefefefefefefefefefefefefefefefe`)

var notPlain = regexp.MustCompile(`[^a-z0-9]`)

// isPlaceholder says whether a text is blank, a placeholder, or one character repeated (zeros): no id of one machine.
func isPlaceholder(id string) bool {
	plain := notPlain.ReplaceAllString(strings.ToLower(id), "")
	return plain == "" || strings.Count(plain, plain[:1]) == len(plain) || slices.Contains(placeholders, plain)
}
