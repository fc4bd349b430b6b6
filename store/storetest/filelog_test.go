//go:build unix

package storetest_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// glance is how often a watch of a fileLog looks for more.
const glance = 500 * time.Microsecond

// fileLog is a backend in one file, for any number of processes: a log that only grows. A write appends one frame, which
// holds the terms and the record, so that both are there or neither is:
//
//	length of the body, checksum of the body, body
//
// The version of a write is the offset of the end of its frame. One writer at a time holds the lock of the file. A writer that dies leaves
// a part of a frame, which the next writer cuts off. A real log would also sync the file before it acknowledges a write. Here that
// would cost most of the time of the tests, and none of them cuts the power.
//
// A handle keeps all records in memory, and reads what was appended before every call. A reader takes no lock of the
// file: it stops before a frame that is not whole.
type fileLog struct {
	backend.Kinds
	file *os.File

	// pause is the time between the two halves of a write: a process that is killed meanwhile leaves a part of a frame.
	pause time.Duration

	mu sync.Mutex
	// mu guards the following. It is also held while the handle writes.
	end     int64             // of the last whole frame that was read
	version informer.Version  // of the last change, which a frame of terms alone may follow
	changes []loggedChange    // in order of version
	latest  map[[2]string]int // by kind and key: the place in changes
	terms   map[string]uint64 // by lease
	cuts    int               // parts of frames that this handle has cut off
}

type loggedChange struct {
	kind   string
	record backend.Record
}

// openLog opens a handle of the log at path.
func openLog(path string) (*fileLog, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileLog{file: file, latest: map[[2]string]int{}, terms: map[string]uint64{}}, nil
}

func (l *fileLog) Close() error { return l.file.Close() }

func (l *fileLog) Capabilities() backend.Capabilities { return backend.Capabilities{MaxBytes: 1 << 20} }

const frameHead = 8

var crc = crc32.MakeTable(crc32.Castagnoli)

// catchUpLocked reads what was appended to the log.
func (l *fileLog) catchUpLocked(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() <= l.end {
		return nil
	}
	news := make([]byte, info.Size()-l.end)
	n, err := l.file.ReadAt(news, l.end)
	if err != nil && !errors.Is(err, io.EOF) { // another process may have cut the end off
		return err
	}
	for rest := news[:n]; len(rest) >= frameHead; {
		size := uint64(binary.BigEndian.Uint32(rest))
		if size == 0 || uint64(len(rest)-frameHead) < size { // zeros would be a frame of nothing, with the right checksum
			break
		}
		body := rest[frameHead : frameHead+size]
		if crc32.Checksum(body, crc) != binary.BigEndian.Uint32(rest[4:]) {
			break
		}
		if err := l.applyLocked(l.end+frameHead+int64(size), body); err != nil {
			return fmt.Errorf("filelog: read the frame at %d: %w", l.end, err)
		}
		rest = rest[frameHead+size:]
	}
	return nil
}

// applyLocked takes in the frame that ends at an offset.
func (l *fileLog) applyLocked(end int64, body []byte) error {
	f, err := decodeFrame(body)
	if err != nil {
		return err
	}
	l.end = end
	for _, fence := range f.fences {
		l.terms[fence.Lease] = max(l.terms[fence.Lease], fence.Term)
	}
	if f.record != nil {
		f.record.Version = informer.Version(end)
		l.version = f.record.Version
		l.latest[[2]string{f.kind, f.record.Key}] = len(l.changes)
		l.changes = append(l.changes, loggedChange{f.kind, *f.record})
	}
	return nil
}

func (l *fileLog) findLocked(kind, key string) backend.Record {
	if i, ok := l.latest[[2]string{kind, key}]; ok {
		return l.changes[i].record
	}
	return backend.Record{}
}

func (l *fileLog) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.catchUpLocked(ctx); err != nil {
		return backend.Record{}, err
	}
	return l.findLocked(kind, key), nil
}

func (l *fileLog) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		page, err := l.page(ctx, kind, q)
		yield(page, err)
	}
}

func (l *fileLog) page(ctx context.Context, kind string, q backend.Query) (backend.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.catchUpLocked(ctx); err != nil {
		return backend.Page{}, err
	}
	page := backend.Page{Version: l.version}
	for at, i := range l.latest {
		if r := l.changes[i].record; at[0] == kind && !r.Deleted && q.Matches(r.Key, r.Labels) {
			page.Records = append(page.Records, r)
		}
	}
	slices.SortFunc(page.Records, func(a, b backend.Record) int { return cmp.Compare(a.Key, b.Key) })
	return page, nil
}

// since returns the changes after a version. Nobody changes them.
func (l *fileLog) since(ctx context.Context, after informer.Version) ([]loggedChange, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.catchUpLocked(ctx); err != nil {
		return nil, err
	}
	if after > l.version {
		return nil, fmt.Errorf("%w: the log is at version %d, not at %d", backend.ErrExpired, l.version, after)
	}
	i, found := slices.BinarySearchFunc(l.changes, after, func(c loggedChange, v informer.Version) int {
		return cmp.Compare(c.record.Version, v)
	})
	if found {
		i++
	}
	return l.changes[i:], nil
}

// Watch looks for more many times in a millisecond. A batch that ends with changes that it does not show ends with a bookmark.
func (l *fileLog) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		at, reported, last := after, after, time.Now()
		tell := func(c backend.Change) bool {
			reported, last = c.Version, time.Now()
			return yield(c, nil)
		}
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			news, err := l.since(ctx, at)
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			for _, c := range news {
				at = c.record.Version
				if c.kind == kind && q.Concern(&c.record) && !tell(backend.Change{Record: c.record, Version: at}) {
					return
				}
			}
			idle := time.Since(last) >= backend.BookmarkInterval/250 // far less than it may
			if (reported < at || idle) && !tell(backend.Change{Version: at}) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

func (l *fileLog) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.lock()
	if err != nil {
		return backend.Record{}, err
	}
	defer unlock()
	if err := l.catchUpLocked(ctx); err != nil {
		return backend.Record{}, err
	}
	for _, f := range fences {
		if err := f.Check(l.terms[f.Lease]); err != nil {
			return backend.Record{}, err
		}
	}
	have := l.findLocked(kind, key)
	next, err := decide(have)
	if err != nil {
		return backend.Record{}, err
	}
	f := frame{kind: kind}
	for _, fence := range fences {
		if fence.Term > l.terms[fence.Lease] {
			f.fences = append(f.fences, fence)
		}
	}
	if next != nil {
		r := *next
		r.Key, r.Version = key, 0 // the version is where the frame ends
		f.record = &r
	}
	if f.record != nil || len(f.fences) > 0 {
		if err := l.appendLocked(f); err != nil {
			return backend.Record{}, err
		}
	}
	return l.findLocked(kind, key), nil
}

// lock waits for the lock of the file. Another process holds it for no longer than one write, so ctx need not end the wait.
func (l *fileLog) lock() (unlock func(), err error) {
	fd := int(l.file.Fd())
	for {
		if err = syscall.Flock(fd, syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("filelog: lock: %w", err)
	}
	return func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }, nil
}

// appendLocked cuts off what a writer has left that died, writes a frame, and takes the frame in.
func (l *fileLog) appendLocked(f frame) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > l.end {
		if err := l.file.Truncate(l.end); err != nil {
			return fmt.Errorf("filelog: cut the end off: %w", err)
		}
		l.cuts++
	}
	body := f.encode()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, crc))
	whole := append(head, body...)
	half := len(whole) / 2
	if _, err := l.file.WriteAt(whole[:half], l.end); err != nil {
		return err
	}
	if l.pause > 0 {
		time.Sleep(l.pause)
	}
	if _, err := l.file.WriteAt(whole[half:], l.end+int64(half)); err != nil {
		return err
	}
	return l.applyLocked(l.end+int64(len(whole)), body)
}

// frame is one write: the terms that it records, and the record, unless there was nothing to write.
type frame struct {
	fences []backend.Fence
	kind   string
	record *backend.Record
}

func (f frame) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(f.fences)))
	for _, fence := range f.fences {
		b = binary.AppendUvarint(appendText(b, fence.Lease), fence.Term)
	}
	if f.record != nil {
		b, _ = f.record.AppendBinary(appendText(b, f.kind)) // it never fails
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errFrame = errors.New("not a frame")

func decodeFrame(b []byte) (f frame, err error) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b, err = nil, errFrame
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() (s string) {
		if n := number(); n <= uint64(len(b)) {
			s, b = string(b[:n]), b[n:]
			return s
		}
		b, err = nil, errFrame
		return ""
	}
	for n := number(); n > 0 && err == nil; n-- {
		f.fences = append(f.fences, backend.Fence{Lease: text(), Term: number()})
	}
	if err != nil || len(b) == 0 {
		return f, err
	}
	if f.kind = text(); err == nil {
		f.record = new(backend.Record)
		err = f.record.UnmarshalBinary(b)
	}
	return f, err
}
