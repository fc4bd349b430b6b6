package filelease

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
)

// Store is a [leaderelect.LeaseStore] and a shard.Lister in a directory. It is not a [leaderelect.Watcher], because the
// standard library does not report changes of files. So followers read the record every RetryPeriod.
//
// All methods may be called concurrently.
type Store struct {
	dir  string
	step func(string) // for tests: called between any two steps of a call; may be nil
}

// New returns a store in dir, and creates dir if it does not exist. It returns an error if dir is not writable, or if its
// file system has no hard links. On systems that are not supported, the error wraps errors.ErrUnsupported.
func New(dir string) (*Store, error) {
	if err := prepare(dir, syncDir); err != nil {
		return nil, fmt.Errorf("filelease: open %q: %w", dir, err)
	}
	return &Store{dir: dir}, nil
}

// prepare creates dir and tries the steps of a write in it. It calls sync with each directory whose names must be on the disk.
func prepare(dir string, sync func(path string) error) error {
	if err := makeDir(dir, sync); err != nil {
		return err
	}
	probe := filepath.Join(dir, rand.Text()+tempSuffix)
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		return err
	}
	err := os.Link(probe, probe+".link")
	return errors.Join(err, os.Remove(probe), ignore(os.Remove(probe+".link"), fs.ErrNotExist), sync(dir))
}

// makeDir is os.MkdirAll that syncs the name of each directory that it creates.
func makeDir(dir string, sync func(path string) error) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || parent == dir {
		return os.MkdirAll(dir, 0o755) // it exists, or cannot be created
	}
	if err := makeDir(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); ignore(err, fs.ErrExist) != nil {
		return err
	}
	return sync(parent)
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	e, _, err := s.load(ctx, key)
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("filelease: get %q: %w", key, marked(err))
	}
	return e, nil
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	_, _, err := s.load(ctx, e.Key)
	switch {
	case err == nil:
		err = leaderelect.ErrConflict
	case errors.Is(err, leaderelect.ErrNotFound):
		e, err = s.add(e, 1, "")
	}
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("filelease: create %q: %w", e.Key, marked(err))
	}
	return e, nil
}

// Update replaces a record, or returns leaderelect.ErrConflict.
func (s *Store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	have, number, err := s.load(ctx, e.Key)
	switch {
	case errors.Is(err, leaderelect.ErrNotFound), err == nil && have.Version != e.Version:
		err = leaderelect.ErrConflict
	case err == nil:
		e, err = s.add(e, number+1, have.Version)
	}
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("filelease: update %q: %w", e.Key, marked(err))
	}
	return e, nil
}

// List returns the records whose keys begin with prefix, sorted by key. It leaves out a damaged record with a long key,
// because the name of its directory does not contain the whole key.
func (s *Store) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	dirs, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("filelease: list %q: %w", prefix, marked(err))
	}
	var list []leaderelect.Entry
	for _, d := range dirs {
		name, ok := strings.CutSuffix(d.Name(), dirSuffix)
		if !ok || !d.IsDir() {
			continue
		}
		key, ok := keyOfFileName(name)
		if ok && !strings.HasPrefix(key, prefix) {
			continue
		}
		e, _, err := s.loadFrom(ctx, d.Name())
		if ok {
			e.Key = key
		}
		switch {
		case errors.Is(err, leaderelect.ErrNotFound): // it is being created, or was just removed
		case err != nil:
			return nil, fmt.Errorf("filelease: list %q: %w", prefix, marked(err))
		case fileName(e.Key) == name && strings.HasPrefix(e.Key, prefix):
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b leaderelect.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

const (
	dirSuffix    = ".d"     // of the directory of a key
	recordSuffix = ".lease" // of the file of a record
	tempSuffix   = ".tmp"   // of a file that is being written
)

// errPassed means that others have written so often since a write that its effect is unknown.
var errPassed = errors.New("other writes have followed, and the outcome of this one is unknown")

// answers are the errors with which a store of leases answers a call.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict}

// load returns the record of key and its number.
func (s *Store) load(ctx context.Context, key string) (leaderelect.Entry, uint64, error) {
	e, number, err := s.loadFrom(ctx, fileName(key)+dirSuffix)
	e.Key = key
	return e, number, err
}

// loadFrom returns the record in a directory of s, and its number.
func (s *Store) loadFrom(ctx context.Context, name string) (leaderelect.Entry, uint64, error) {
	dir := filepath.Join(s.dir, name)
	for ctx.Err() == nil {
		number, err := newest(dir)
		if err != nil {
			return leaderelect.Entry{}, 0, err
		}
		s.at("looked")
		e, h, err := readRecord(recordPath(dir, number))
		if err == nil && fileName(string(h.Key))+dirSuffix != name { // copied from another key
			e, err = leaderelect.Entry{Version: "copied-" + h.Version}, errDamaged
		}
		if errors.Is(err, errDamaged) {
			e.Term = max(e.Term, leastTerm(dir, number))
			e.Version = fmt.Sprintf("%d-%s", number, e.Version) // two files can be damaged in the same way
			err = nil
		}
		s.at("read")
		// A directory listing is not atomic. But numbers only grow, so if two listings agree, the number was the newest
		// between them.
		if again, err := newest(dir); err != nil || again != number {
			continue
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return e, number, err
		}
	}
	return leaderelect.Entry{}, 0, ended.Err(ctx, context.Cause(ctx), answers)
}

// leastTerm returns a term that is not less than that of the damaged record with the given number. Each record raises the term of the
// one before by at most 1, unless its elector has seen greater terms. If all records before it are damaged too, or were removed, leastTerm
// counts from the first one.
func leastTerm(dir string, number uint64) uint64 {
	for n := number - 1; n > 0; n-- {
		before, _, err := readRecord(recordPath(dir, n))
		switch {
		case err == nil:
			return before.Term + number - n
		case !errors.Is(err, errDamaged):
			return number
		}
	}
	return number
}

// add makes e the record with the given number, which replaces the previous one. Others see the new record at once, or
// never.
func (s *Store) add(e leaderelect.Entry, number uint64, replaces string) (leaderelect.Entry, error) {
	dir := filepath.Join(s.dir, fileName(e.Key)+dirSuffix)
	if number == 1 {
		if err := os.Mkdir(dir, 0o755); ignore(err, fs.ErrExist) != nil {
			return e, err
		}
		if err := syncDir(s.dir); err != nil {
			return e, err
		}
	}
	// Random, and not the number, so that a version is not reused even if files were removed or restored.
	e.Version, e.Floor = rand.Text(), 0
	e.Value = bytes.Clone(e.Value)
	data, err := encodeRecord(e, replaces)
	if err != nil {
		return e, err
	}
	temp := filepath.Join(dir, e.Version+tempSuffix)
	defer os.Remove(temp) // even if it is incomplete
	if err := writeSynced(temp, data); err != nil {
		return e, err
	}
	s.at("written")
	err = os.Link(temp, recordPath(dir, number))
	if errors.Is(err, fs.ErrExist) {
		return e, leaderelect.ErrConflict
	}
	if err != nil {
		return e, err
	}
	s.at("linked")
	if err := effective(dir, number, e.Version); err != nil {
		return e, err
	}
	s.at("checked")
	if err := syncDir(dir); err != nil {
		return e, err
	}
	s.at("synced")
	tidy(dir, number)
	return e, nil
}

// effective returns nil if the record that was linked to the number has become the newest one. If the caller was suspended before the link,
// others may have passed the number and removed its file. Then the new file is old, and no process has read it or ever will.
func effective(dir string, number uint64, version string) error {
	last, err := newest(dir)
	if err == nil && last == number {
		return nil
	}
	_, next, err := readRecord(recordPath(dir, number+1))
	switch {
	case err != nil: // the next file was removed too
		return errPassed
	case next.Replaces == version: // another writer has replaced it in the meantime
		return nil
	default:
		_ = os.Remove(recordPath(dir, number)) // older than the newest, like every file that is removed
		return leaderelect.ErrConflict
	}
}

// tidy removes old records, and temporary files of writers that were killed, after the record with the given number was
// written. A slow writer needs the record after its own, and its temporary file, to find out whether its write succeeded.
// Without them it returns an error, but does no harm.
func tidy(dir string, number uint64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return // the next writer tries again
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			continue // another has removed it
		}
		n, ok := numberOf(f.Name())
		passed, age := int64(number-n), time.Since(info.ModTime())
		if ok && (passed > maxKept || passed > minKept && age > keptFor) || strings.HasSuffix(f.Name(), tempSuffix) && age > keptFor {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// The limits of old records, and the age at which temporary files are removed. At least one old record must stay, for the
// term of a damaged one.
const (
	minKept = 4
	maxKept = 64
	keptFor = 10 * time.Second
)

// newest returns the greatest number of a record in dir, or leaderelect.ErrNotFound.
func newest(dir string) (uint64, error) {
	files, err := os.ReadDir(dir)
	if ignore(err, fs.ErrNotExist) != nil {
		return 0, err
	}
	last := uint64(0)
	for _, f := range files {
		if n, ok := numberOf(f.Name()); ok {
			last = max(last, n)
		}
	}
	if last == 0 {
		return 0, leaderelect.ErrNotFound
	}
	return last, nil
}

// numberOf returns the number of a record file, which is at least 1.
func numberOf(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, recordSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0 && name == recordName(n)
}

// recordName returns the name of the record file with a number.
func recordName(number uint64) string { return fmt.Sprintf("%020d%s", number, recordSuffix) }

// recordPath returns the path of the record file with a number.
func recordPath(dir string, number uint64) string { return filepath.Join(dir, recordName(number)) }

// writeSynced writes a new file and syncs it.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// marked marks err with retry.Permanent if this process may not use the files.
func marked(err error) error {
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		return retry.Permanent(err)
	}
	return err
}

// ignore returns err, or nil if err is harmless.
func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// at reports the step of a call to a test.
func (s *Store) at(step string) {
	if s.step != nil {
		s.step(step)
	}
}
