package machine

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	recordSuffix  = ".replica.json" // of a record
	logSuffix     = ".replica.log"  // of the log of a replica
	newbornSuffix = ".replica.new"  // of a record that has no name yet
	maxRecord     = 64 << 10        // bytes of a record that are read
	maxTries      = 100             // attempts at steps that other processes can disturb
)

// content is a line of a record. The first has the request, the later ones describe the process.
type content struct {
	App      string    `json:"app,omitempty"`
	Revision string    `json:"revision,omitempty"`
	Message  string    `json:"message,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	PID      int       `json:"pid,omitempty"`
	Port     int       `json:"port,omitempty"`
}

// record is an open record file.
//
// Invariants: only its starter and its process lock it exclusively, both through one open file, and for life. A check
// of whether it is alive locks it shared, so that concurrent checks do not mistake each other for the process. A
// record that was free once is free forever.
type record struct {
	*os.File
	dir, id string
}

// recordIDs returns the IDs of the records in the directory, in order.
func recordIDs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if ok && validID(id) && e.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sweep removes the records that never got their name because their starter died.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".*"+newbornSuffix))
	if err != nil {
		return err
	}
	for _, name := range left {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		free, err := lockShared(f)
		if err == nil && free {
			// A starter that has created it, but not locked it yet, notices, and creates another.
			err = removeFile(name)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// createRecord creates the record of s, locked by the returned file, or fails with ErrExists. Its first line is
// complete from the moment that it has its name.
func createRecord(dir string, s Spec, now time.Time) (*record, error) {
	line, err := json.Marshal(content{App: s.App, Revision: s.Revision, Message: s.Message, Created: now})
	if err != nil {
		return nil, err
	}
	if len(line) > maxRecord/2 {
		return nil, fmt.Errorf("%w: it takes %d bytes; the limit is %d", ErrInvalid, len(line), maxRecord/2)
	}
	for range maxTries {
		f, err := newborn(dir, append(line, '\n'))
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		rec := &record{File: f, dir: dir, id: s.ID}
		err = os.Link(f.Name(), rec.path())
		if err := errors.Join(err, removeFile(f.Name())); err == nil {
			return rec, nil
		}
		f.Close()
		if errors.Is(err, fs.ErrExist) {
			err = makeWay(dir, s.ID)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // missing: a sweep removed it before it was locked
			return nil, err
		}
	}
	return nil, errors.New("other processes keep getting in the way")
}

// newborn returns a new file without a lasting name that holds line and is locked; or nil if a sweep has interfered.
func newborn(dir string, line []byte) (*os.File, error) {
	name := filepath.Join(dir, "."+rand.Text()+newbornSuffix)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := lockExclusive(f)
	if err == nil && locked {
		_, err = f.Write(line)
	}
	if err != nil || !locked {
		return nil, errors.Join(err, f.Close(), removeFile(name))
	}
	return f, nil
}

// makeWay removes the record of a dead replica so that its ID can be used. It fails with ErrExists if that replica is
// alive.
func makeWay(dir, id string) error {
	old, err := openRecord(dir, id)
	if err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	defer old.Close()
	held, err := old.held()
	if err != nil {
		return err
	}
	if held {
		return ErrExists
	}
	return old.removeStale()
}

// openRecord opens the record of a replica. It returns nil if there is none.
func openRecord(dir, id string) (*record, error) {
	rec := &record{dir: dir, id: id}
	// O_NONBLOCK: a named pipe in place of the record would block.
	f, err := os.OpenFile(rec.path(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec.File = f
	return rec, nil
}

func (r *record) path() string    { return filepath.Join(r.dir, r.id+recordSuffix) }
func (r *record) logPath() string { return filepath.Join(r.dir, r.id+logSuffix) }

// held reports whether the process of the record, or its starter, is alive.
func (r *record) held() (bool, error) {
	free, err := lockShared(r.File)
	return !free, err
}

// read returns the content of the record. A field that is missing or wrong is zero. Without a port, the replica is
// Starting.
func (r *record) read() (Replica, error) {
	data, err := io.ReadAll(io.NewSectionReader(r, 0, maxRecord))
	if err != nil {
		return Replica{}, err
	}
	var c content
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		next := c
		if json.Unmarshal(line, &next) == nil {
			c = next
		}
	}
	return Replica{ID: r.id, App: c.App, Revision: c.Revision, Message: c.Message,
		PID: c.PID, Port: c.Port, Created: c.Created, State: Starting}, nil
}

// removeStale removes a record that is not held, and its log. If another process is already doing so, it leaves the
// record to that process.
func (r *record) removeStale() error {
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	// Only the holder of the lock on the directory removes stale records. So a name that was checked still means this
	// file, and not the next record with that ID. No process waits for the lock, because its holder may be suspended.
	locked, err := lockExclusive(dir)
	if err != nil || !locked {
		return err
	}
	mine, err := r.Stat()
	if err != nil {
		return err
	}
	if !mine.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", r.path())
	}
	named, err := os.Lstat(r.path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, named) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.remove()
}

// remove removes the record and the log. The caller holds the lock on the record, or knows that it is stale and holds
// the lock on the directory. The log is removed first, so that a crash in between leaves a record to find it by.
func (r *record) remove() error {
	if err := removeFile(r.logPath()); err != nil {
		return err
	}
	return removeFile(r.path())
}

// removeFile removes a file that may already be gone.
func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// validID reports whether id can name a replica and a file: 1 to 100 letters, digits, '-', '_' and '.', the first of
// them a letter or a digit.
func validID(id string) bool {
	if id == "" || len(id) > 100 {
		return false
	}
	for i, c := range []byte(id) {
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("-_.", rune(c))) {
			return false
		}
	}
	return true
}
