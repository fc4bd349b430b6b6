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

// grace is the time between the announcement that a part of the history is forgotten and its removal. A watch that has
// found at some time that nothing after its version is forgotten may rely on that for a part of the grace.
const grace = 5 * time.Second

// trimBatch is the number of sequences that one write trims.
const trimBatch = 512

// trimmer forgets the history that is older than Config.History. It has no goroutine: writers do its work.
type trimmer struct {
	grace time.Duration

	mu sync.Mutex // is held while this process trims
	// mu guards the following.
	next    uint64    // there is nothing to announce before this horizon
	horizon uint64    // that was announced last, as far as is known
	since   time.Time // when that was seen for the first time
}

// trim does a part of the work if it is due and nobody of this process is at it. Its errors are of no interest: the next
// writer does the work.
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

// trimLocked removes a batch of what was announced to be removed, or announces what is to be removed next. The caller
// holds the lock of the trimmer.
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

// remove removes what the messages after one sequence up to another have superseded, and those that are tombstones or
// comparisons. The mark, which is behind them, shows that all of them were read.
//
// It goes in order of sequence, and purges a subject from its beginning. So a tombstone outlives all that was before it, and
// nothing that was deleted comes back.
func (b *Backend) remove(ctx context.Context, after, to, marked uint64) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	r, err := b.read(ctx, after+1, true, strings.TrimSuffix(b.subjects.objects, "o.")+">")
	if err != nil {
		return err
	}
	defer r.close(ctx)
	below := map[string]uint64{} // by subject: what is below is removed
	for at := after; at < to; {
		m, err := r.read(ctx, b.cfg.Timeout)
		if err != nil {
			return err
		}
		if at = m.sequence; at > to {
			break
		}
		switch {
		case m.deleted || strings.HasPrefix(m.subject, b.subjects.checks):
			below[m.subject] = at + 1
		case m.expect != "" && m.expect != "0":
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
