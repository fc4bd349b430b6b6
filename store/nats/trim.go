package nats

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
)

// grace is the time between the announcement that a part of the history will be removed, and the removal. A watch that has found that
// nothing after its version is removed may rely on that for a part of the grace.
const grace = 5 * time.Second

// trimBatch is the number of sequences that one write trims.
const trimBatch = 512

// trimmer removes the history that is older than Config.History. It has no goroutine: writers do its work.
type trimmer struct {
	grace time.Duration

	mu sync.Mutex // held while this process trims
	// mu guards the following.
	next    uint64    // there is nothing to announce before this horizon
	horizon uint64    // the last announced one that is known
	since   time.Time // when that was seen for the first time
}

// trim does a part of the work if it is due and no other goroutine of this process does it. Its errors are ignored: the next writer tries
// again.
func (b *Backend) trim(ctx context.Context, version informer.Version) {
	t := &b.trimmer
	if uint64(version) <= uint64(b.cfg.History) || !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if horizon := uint64(version) - uint64(b.cfg.History); horizon >= t.next && time.Since(t.since) >= t.grace {
		_ = b.trimLocked(ctx, horizon)
	}
}

// trimLocked removes a batch of the announced messages, or announces the next batch. The caller holds the lock of the trimmer.
func (b *Backend) trimLocked(ctx context.Context, horizon uint64) error {
	t := &b.trimmer
	m, marked, err := b.readMark(ctx)
	if err != nil || marked == 0 {
		return err
	}
	if m.Horizon != t.horizon {
		t.horizon, t.since = m.Horizon, time.Now()
	}
	switch {
	case m.Trimmed < m.Horizon && time.Since(t.since) < t.grace:
		return nil
	case m.Trimmed < m.Horizon:
		to := min(m.Horizon, m.Trimmed+trimBatch)
		if err := b.remove(ctx, m.Trimmed, to, marked); err != nil {
			return err
		}
		m.Trimmed = to
	case horizon < m.Horizon+trimBatch:
		t.next = m.Horizon + trimBatch
		return nil
	default:
		m.Horizon = horizon
	}
	if _, err = b.writeMark(ctx, m, headerExpect, marked); err == nil && m.Horizon != t.horizon {
		t.horizon, t.since = m.Horizon, time.Now()
	}
	return err
}

// remove removes the messages that were superseded by messages after one sequence and up to another, and those of the latter that are
// tombstones or comparisons. Reaching the mark, which comes later, shows that all of them were read.
//
// It works in order of sequence, and purges a subject from its beginning. So a tombstone outlives all messages before it, and nothing that
// was deleted comes back.
func (b *Backend) remove(ctx context.Context, after, to, marked uint64) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	r, err := b.read(ctx, after+1, true, strings.TrimSuffix(b.subjects.objects, "o.")+">")
	if err != nil {
		return err
	}
	defer r.close(ctx)
	below := map[string]uint64{} // by subject: messages below are removed
	for at := after; at < to; {
		m, err := r.await(ctx)
		if err != nil {
			return err
		}
		if at = m.sequence; at > to {
			break
		}
		expect := m.header.Get(headerExpect) // the sequence that the message has replaced
		switch {
		case m.header.Get(headerDeleted) != "" || strings.HasPrefix(m.subject, b.subjects.checks):
			below[m.subject] = at + 1
		case expect != "" && expect != "0":
			below[m.subject] = at
		}
	}
	for subject, sequence := range below {
		err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(sequence))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
	}
	return nil
}
