package leaderelect

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FileStore is a [LeaseStore] in a directory, for processes on one host. It is a [Lister], and no [Watcher]: the
// standard library cannot be told of changes of a file, so followers read it every RetryPeriod. It works on Linux,
// macOS and the BSDs, on a local file system: not on NFS, whose locks and caches do not promise enough.
//
// Each key has three files, named after it: the record (.lease), the next record while it is written (.tmp), and a lock
// (.lock) that a writer holds with flock(2) for the milliseconds of a write. A record is replaced by writing, syncing and
// renaming, so a process that is killed at any point leaves the old one or the new one. The kernel frees the lock of a
// process that dies. Readers take no lock.
//
// Do not remove lock files while a process may write: another could then lock a new one beside it. A record that is
// removed is one that the store has forgotten; see [ErrStoreRegressed].
//
// A call notices the end of its ctx while it waits for the lock. The write itself is not interrupted: it ends when
// the disk says so.
//
// All methods may be called by many goroutines at once.
type FileStore struct {
	dir string
}

// NewFileStore returns a store in dir, which it creates if it is not there. On a system without flock the error wraps
// errors.ErrUnsupported.
func NewFileStore(dir string) (*FileStore, error) {
	if err := supportsFlock(); err != nil {
		return nil, fmt.Errorf("leaderelect: open file store %q: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("leaderelect: open file store %q: %w", dir, err)
	}
	return &FileStore{dir: dir}, nil
}

// Get returns the record, or ErrNotFound.
func (s *FileStore) Get(ctx context.Context, key string) (Entry, error) {
	if ctx.Err() != nil {
		return Entry{}, fmt.Errorf("leaderelect: get %q: %w", key, context.Cause(ctx))
	}
	e, err := s.load(key)
	if err != nil {
		return Entry{}, fmt.Errorf("leaderelect: get %q: %w", key, err)
	}
	return e, nil
}

// Create stores a new record, or returns ErrConflict.
func (s *FileStore) Create(ctx context.Context, e Entry) (Entry, error) {
	e, err := s.swap(ctx, e, func(_ Entry, found bool) bool { return !found })
	if err != nil {
		return Entry{}, fmt.Errorf("leaderelect: create %q: %w", e.Key, err)
	}
	return e, nil
}

// Update replaces a record, or returns ErrConflict.
func (s *FileStore) Update(ctx context.Context, e Entry) (Entry, error) {
	e, err := s.swap(ctx, e, func(have Entry, found bool) bool { return found && have.Version == e.Version })
	if err != nil {
		return Entry{}, fmt.Errorf("leaderelect: update %q: %w", e.Key, err)
	}
	return e, nil
}

// List returns the records whose keys begin with prefix, sorted by key. It reads every record file of the directory, and
// fails if one of them is damaged. One with the name of another key is left out.
func (s *FileStore) List(ctx context.Context, prefix string) ([]Entry, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("leaderelect: list %q: %w", prefix, err)
	}
	var list []Entry
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("leaderelect: list %q: %w", prefix, context.Cause(ctx))
		}
		if filepath.Ext(f.Name()) != ".lease" {
			continue
		}
		e, err := s.loadFile(filepath.Join(s.dir, f.Name()))
		switch {
		case errors.Is(err, ErrNotFound): // somebody has just removed it
		case err != nil:
			return nil, fmt.Errorf("leaderelect: list %q: %w", prefix, err)
		case fileName(e.Key)+".lease" != f.Name(): // a copy that somebody has made
		case strings.HasPrefix(e.Key, prefix):
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// swap stores e, under a new version, if the record at that moment is one that may be replaced.
func (s *FileStore) swap(ctx context.Context, e Entry, replaces func(have Entry, found bool) bool) (Entry, error) {
	lock, err := s.lock(ctx, e.Key)
	if err != nil {
		return e, err
	}
	defer lock.Close() // also unlocks

	have, err := s.load(e.Key)
	found := err == nil
	if !found && !errors.Is(err, ErrNotFound) {
		return e, err
	}
	if !replaces(have, found) {
		return e, ErrConflict
	}
	// Random, and not counted, so that a version is not used again even if somebody has removed or restored the file.
	e.Version = rand.Text()
	e.Value = bytes.Clone(e.Value)
	return e, s.store(e)
}

// lock takes the lock of key. It is free again when the file is closed, by whomever.
func (s *FileStore) lock(ctx context.Context, key string) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	path := s.path(key, ".lock")
	for pause := time.Millisecond; ; pause = min(2*pause, maxLockPause) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		locked, err := tryFlock(f)
		if err == nil && locked {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", path, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("lock %q: %w", path, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// maxLockPause is the longest pause between two tries to take a lock. It is held for the time of a write.
const maxLockPause = 8 * time.Millisecond

// header is the first line of a record file. The value follows.
type header struct {
	Format   int    `json:"format"` // 1
	Key      []byte `json:"key"`    // which the file name does not tell if it is long
	Term     uint64 `json:"term"`
	Version  string `json:"version"`
	Size     int    `json:"size"`     // of the value, in bytes
	Checksum uint32 `json:"checksum"` // CRC-32 (IEEE) of the value
}

// load reads the record of key. A file that is damaged is an error, not an absent record: its term must not be forgotten.
func (s *FileStore) load(key string) (Entry, error) {
	e, err := s.loadFile(s.path(key, ".lease"))
	if err == nil && e.Key != key {
		return Entry{}, fmt.Errorf("read %q: it has the key %q", s.path(key, ".lease"), e.Key)
	}
	return e, err
}

// loadFile reads a record, whatever its key is.
func (s *FileStore) loadFile(path string) (Entry, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, ErrNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	line, value, _ := bytes.Cut(data, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return Entry{}, fmt.Errorf("read %q: damaged header: %w", path, err)
	}
	if h.Format != 1 || h.Version == "" || h.Size != len(value) || h.Checksum != crc32.ChecksumIEEE(value) {
		return Entry{}, fmt.Errorf("read %q: damaged record", path)
	}
	return Entry{Key: string(h.Key), Value: value, Term: h.Term, Version: h.Version}, nil
}

// store replaces the record of e.Key. The caller holds its lock.
func (s *FileStore) store(e Entry) error {
	line, err := json.Marshal(header{
		Format: 1, Key: []byte(e.Key), Term: e.Term, Version: e.Version, Size: len(e.Value), Checksum: crc32.ChecksumIEEE(e.Value),
	})
	if err != nil {
		return err
	}
	tmp := s.path(e.Key, ".tmp") // what a writer that was killed has left there is overwritten
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(append(line, '\n'), e.Value...))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, s.path(e.Key, ".lease")); err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// path returns the name of a file of key.
func (s *FileStore) path(key, suffix string) string {
	return filepath.Join(s.dir, fileName(key)+suffix)
}
