package licensing

import (
	"bytes"
	"context"
	"errors"
	"sync"
)

// Store keeps the knowledge of an installation between starts: one text, which is replaced as a whole. If it fails, the client
// continues in memory, and State.Problem says so. Its functions should return when the context ends.
//
// Before each save the client reads the store and uses what is newer there: a revocation list, a key set, a token. A store that
// several processes share needs to be an [Updater]: otherwise a process can overwrite what another one wrote between Read and
// Write.
type Store interface {
	// Read returns the text that was written last, or nil if there is none.
	Read(ctx context.Context) ([]byte, error)
	// Write replaces the text. It should be atomic.
	Write(ctx context.Context, text []byte) error
}

// Updater is a [Store] that several processes can share.
type Updater interface {
	// Update replaces the text by change(text) atomically: under an exclusive lock, or by compare-and-swap, with another call of
	// change for the new text after each failure. It returns an error of change. A lock must end with the process that holds it.
	Update(ctx context.Context, change func(text []byte) ([]byte, error)) error
}

// update replaces the text of a store.
func update(ctx context.Context, store Store, change func([]byte) ([]byte, error)) error {
	if updater, isUpdater := store.(Updater); isUpdater {
		return updater.Update(ctx, change)
	}
	// Reads, changes, writes, and reads again to check. Another process can still overwrite the text after the last check.
	found, err := store.Read(ctx)
	for range 3 {
		var text []byte
		if err == nil {
			text, err = change(found)
		}
		if err == nil {
			err = store.Write(ctx, text)
		}
		if err == nil {
			found, err = store.Read(ctx)
		}
		if err != nil || bytes.Equal(found, text) {
			return err
		}
	}
	return errors.New("another process keeps replacing the content of the store")
}

// MemoryStore is a store in memory, which ends with the process: the default.
func MemoryStore() Store {
	return &memoryStore{}
}

type memoryStore struct {
	mu   sync.Mutex
	text []byte
}

func (m *memoryStore) Read(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.text), nil
}

func (m *memoryStore) Write(_ context.Context, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = bytes.Clone(text)
	return nil
}

func (m *memoryStore) Update(_ context.Context, change func([]byte) ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, err := change(bytes.Clone(m.text))
	if err == nil {
		m.text = text
	}
	return err
}
