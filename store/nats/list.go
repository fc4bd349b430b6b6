package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	pageSize     = 1000 // records of a page of a list
	listAttempts = 5
)

// errMoved means that the history of a list was trimmed while it was read.
var errMoved = errors.New("the history was trimmed while the list was read")

// List implements [backend.Backend]. A stream has no snapshots. A list is consistent anyway:
//
//  1. It creates a consumer that delivers the last message of each key, as of some sequence S, and everything after S.
//  2. Then it asks the leader for the last sequence of the stream, V, and after that for the last message of the kind, K. So every
//     message of the kind up to V is at or before K. The version of the list is the greater of V and K.
//  3. It reads until K was delivered, and ignores messages after the version. A key that is overwritten during the list was delivered
//     as of S and is delivered again, so the list has its last state up to the version.
//  4. Only a removal could hide a state: a message after S that was superseded or was a tombstone, and was trimmed before it was read.
//     Nothing above the horizon of the history is ever trimmed. So the list reads the horizon at the end, and starts over unless the
//     horizon is below S. It knows that S is at least the sequence of the mark, which the consumer delivered first.
func (b *Backend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := b.list(ctx, kind, q, func(p backend.Page) bool { return yield(p, nil) }); err != nil {
			yield(backend.Page{}, failed(ctx, fmt.Sprintf("list %.200s", kind), err))
		}
	}
}

// Version implements [backend.Versioner].
func (b *Backend) Version(ctx context.Context) (informer.Version, error) {
	p, err := b.position(ctx, time.Now())
	if err != nil {
		return 0, failed(ctx, "read the version", err)
	}
	return p.version, nil
}

// list calls yield with page after page until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	pattern, err := b.subjects.kind(kind)
	if err != nil {
		return err
	}
	var s snapshot
	for attempt := 1; ; attempt++ {
		if s, err = b.snapshot(ctx, pattern); err == nil {
			break
		}
		if again := errors.Is(err, errMoved) || errors.Is(err, errGap); !again || attempt == listAttempts {
			return err
		}
	}
	entries := s.last()
	if len(q.Labels) == 0 {
		entries = slices.DeleteFunc(entries, func(e entry) bool { return !q.Matches(e.key, nil) })
	}
	for first := true; first || len(entries) > 0; first = false {
		n := min(pageSize, len(entries))
		page := backend.Page{Version: s.version, Records: make([]backend.Record, 0, n)}
		for i := range entries[:n] {
			e := &entries[i]
			r, err := decode(e.key, e.sequence, e.data)
			if err != nil {
				return err
			}
			e.data = nil // so that a list of a million is not held twice
			if q.Matches(r.Key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		}
		entries = entries[n:]
		if !yield(page) {
			return nil
		}
	}
	return nil
}

// snapshot is the objects of a kind at one version.
type snapshot struct {
	version informer.Version
	entries []entry // as they were read; the last one of a key counts
}

type entry struct {
	key      string
	sequence uint64
	data     []byte // of the record
	deleted  bool   // it is a tombstone
}

// last returns the last entry of each key that is not a tombstone, in order of key. It uses the memory of s.entries.
func (s *snapshot) last() []entry {
	slices.SortStableFunc(s.entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	all := s.entries[:0]
	for i, e := range s.entries {
		if next := i + 1; e.deleted || next < len(s.entries) && s.entries[next].key == e.key {
			continue
		}
		all = append(all, e)
	}
	clear(s.entries[len(all):])
	return all
}

// snapshot reads a kind at one version. List says why it is consistent.
func (b *Backend) snapshot(ctx context.Context, pattern string) (s snapshot, err error) {
	before, err := b.position(ctx, time.Now())
	if err != nil {
		return s, err
	}
	r, err := b.read(ctx, 0, false, pattern, b.subjects.mark)
	if err != nil {
		return s, err
	}
	defer r.close(ctx)
	after, err := b.position(ctx, time.Now())
	if err != nil {
		return s, err
	}
	lastOfKind, err := b.last(ctx, pattern)
	if err != nil {
		return s, err
	}
	s = snapshot{version: after.version}
	var end uint64 // the list is complete when the message with this sequence has been read
	if lastOfKind != nil {
		end = lastOfKind.Sequence
		s.version = max(s.version, informer.Version(end))
	}
	var at, marked uint64
	for at < end || end > 0 && marked == 0 {
		m, err := r.await(ctx)
		if errors.Is(err, errNothing) {
			return s, fmt.Errorf("%w: nothing within %v", errGap, b.cfg.Timeout)
		}
		if err != nil {
			return s, err
		}
		at = m.sequence
		switch {
		case m.subject == b.subjects.mark:
			if marked == 0 {
				marked = at
			}
		case informer.Version(at) <= s.version:
			if err := s.add(&b.subjects, &m); err != nil {
				return s, err
			}
		}
	}
	now, err := b.position(ctx, time.Now())
	if err != nil {
		return s, err
	}
	// S is at least the older of the two marks. The first mark that was delivered may be later than S, if the one before it was trimmed in
	// between, and it may be the horizon itself. A replica that lags may deliver an older mark than the leader had before.
	if !now.created.Equal(before.created) || now.mark.Epoch != before.mark.Epoch ||
		end > 0 && now.mark.Horizon > min(before.marked, marked) {
		return s, errMoved
	}
	return s, nil
}

func (s *snapshot) add(subjects *subjects, m *message) error {
	key, err := subjects.key(m.subject)
	if err != nil {
		return err
	}
	s.entries = append(s.entries, entry{key, m.sequence, m.data, m.header.Get(headerDeleted) != ""})
	return nil
}
