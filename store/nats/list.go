package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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
	keys := make([]string, 0, len(s.records))
	for key := range s.records {
		if q.Matches(key, nil) || len(q.Labels) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for first := true; first || len(keys) > 0; first = false {
		n := min(pageSize, len(keys))
		page := backend.Page{Version: s.version, Records: make([]backend.Record, 0, n)}
		for _, key := range keys[:n] {
			at := s.records[key]
			delete(s.records, key) // so that a list of a million is not held twice
			r, err := decode(key, at.sequence, at.data)
			if err != nil {
				return err
			}
			if q.Matches(key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		}
		keys = keys[n:]
		if !yield(page) {
			return nil
		}
	}
	return nil
}

// snapshot is the objects of a kind at one version, without tombstones.
type snapshot struct {
	version informer.Version
	records map[string]entry // by key
}

type entry struct {
	sequence uint64
	data     []byte // of the record
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
	s = snapshot{version: after.version, records: map[string]entry{}}
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
	if m.deleted {
		delete(s.records, key)
		return nil
	}
	s.records[key] = entry{m.sequence, m.data}
	return nil
}
