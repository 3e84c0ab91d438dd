package licensing

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// FileStore is a store in one file, readable by its owner only. The file is replaced by renaming, so a crash leaves either the old
// or the new content. Its folder is created if it is missing. Several processes may share it, also of products in other languages.
//
// If the file cannot be replaced by renaming (a single mounted file, a read-only folder), it is written in place. In a container it
// should be on a volume.
func FileStore(path string) Store {
	return fileStore{path}
}

type fileStore struct{ path string }

func (f fileStore) Read(context.Context) ([]byte, error) {
	return readText(f.path)
}

func (f fileStore) Write(ctx context.Context, text []byte) error {
	return f.Update(ctx, func([]byte) ([]byte, error) { return text, nil })
}

func (f fileStore) Update(ctx context.Context, change func([]byte) ([]byte, error)) error {
	path, err := target(f.path)
	for isDone := false; err == nil && !isDone; {
		var before, after []byte
		if before, err = readText(path); err == nil {
			after, err = change(before)
		}
		if err == nil {
			isDone, err = replaceFile(ctx, path, before, after)
		}
	}
	return err
}

// readText is the text of a file; nil if there is none.
func readText(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// target is the file that a path leads to through symbolic links, even if that file does not exist yet.
func target(path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	link, err := os.Readlink(path)
	if err != nil {
		return path, nil
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(filepath.Dir(path), link)
	}
	return target(link)
}

// createFile creates a file with this text, unless it exists. No reader sees a part of it.
func createFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	draft := path + "." + randomUUID()
	defer os.Remove(draft)
	if err := writeFile(draft, os.O_CREATE|os.O_TRUNC, text); err != nil {
		return err
	}
	return os.Link(draft, path)
}

// writeFile writes a text to the disk.
func writeFile(path string, flags int, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// replaceFile replaces the text before of a file by after. It is false if another process has replaced it first.
//
// The new text is first written to a file whose name is derived from the old text, so only one process can create it. If that
// process is killed, another one can rename the complete file into place. No process waits for a lock that a crash left behind.
func replaceFile(ctx context.Context, path string, before, after []byte) (bool, error) {
	successor := path + ".after-" + digest(before)
	isOurs := true
	if err := createFile(successor, after); errors.Is(err, fs.ErrExist) {
		isAbandoned, err := waitForReplacement(ctx, successor)
		if !isAbandoned || err != nil {
			return false, err
		}
		isOurs = false
	} else if err != nil {
		return writeInPlace(path, before, after, err)
	}
	// Checked again: from here only this successor can replace before.
	if isUnchanged, err := has(path, before); !isUnchanged {
		if isOurs {
			os.Remove(successor)
		}
		return false, err
	}
	// If the successor does not exist, another process assumed that this one was killed, and has renamed it into place.
	if err := os.Rename(successor, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(successor)
		return writeInPlace(path, before, after, err)
	}
	return isOurs, nil
}

const (
	// A process that has not finished a write after this time was killed: a write takes a few milliseconds.
	abandonedAfter = time.Second
	pollEvery      = 5 * time.Millisecond
)

// waitForReplacement waits until a successor is in place. It is true if that does not happen, because its process was killed.
func waitForReplacement(ctx context.Context, successor string) (isAbandoned bool, err error) {
	first, err := os.Stat(successor)
	if err != nil {
		return false, nil
	}
	for begun := time.Now(); time.Since(begun) < abandonedAfter; {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pollEvery):
		}
		if at, err := os.Stat(successor); err != nil || !os.SameFile(first, at) {
			return false, nil
		}
	}
	return true, nil
}

// isNotReplaceable: the file system contains the file, but cannot link or rename in its folder.
func isNotReplaceable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV)
}

func writeInPlace(path string, before, after []byte, cause error) (bool, error) {
	if !isNotReplaceable(cause) {
		return false, cause
	}
	if isUnchanged, err := has(path, before); !isUnchanged {
		return false, err
	}
	err := writeFile(path, os.O_CREATE|os.O_TRUNC, after)
	return err == nil, err
}

// has says whether a file has this text, or does not exist if the text is nil.
func has(path string, text []byte) (bool, error) {
	found, err := readText(path)
	return err == nil && bytes.Equal(found, text) && (found == nil) == (text == nil), err
}

func digest(text []byte) string {
	if text == nil {
		return "none"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func randomUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0F|0x40, id[8]&0x3F|0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
