package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// mark says how much of the history was removed. It is the last message of its subject.
type mark struct {
	// Horizon is the earliest version from which a watch can start.
	Horizon uint64 `json:"horizon"`

	// Trimmed is the sequence up to which superseded messages and tombstones were removed. Writers are removing those between
	// Trimmed and Horizon.
	Trimmed uint64 `json:"trimmed"`

	// Epoch is the first Horizon of this history. It changes when another program has removed messages.
	Epoch uint64 `json:"epoch"`

	// Lost is set if there was something before Epoch, so that a watch cannot start from 0.
	Lost bool `json:"lost,omitempty"`
}

// position is the state of the stream at one time.
type position struct {
	asked time.Time // the server answered after that

	created   time.Time // the stream
	sequences sequences
	version   informer.Version // of the last change of a record
	mark      mark
	marked    uint64 // the sequence of the mark
}

// sequences change with everything that happens to a stream.
type sequences struct{ first, last, messages uint64 }

// progress is the last position that was read.
type progress[P interface{ askedAt() time.Time }] struct {
	turn chan struct{} // holds one token while a goroutine asks

	mu sync.Mutex
	// mu guards the following.
	last P
}

// read returns a position that the server had at or after the given time. Concurrent callers share one answer.
func (p *progress[P]) read(ctx context.Context, since time.Time, ask func(ctx context.Context, last P) (P, error)) (P, error) {
	var none P
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	last := p.get()
	if !last.askedAt().Before(since) {
		return last, nil
	}
	now, err := ask(ctx, last)
	if err != nil {
		return none, err
	}
	p.set(now)
	return now, nil
}

func (p *progress[P]) get() P {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *progress[P]) set(last P) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = last
}

func (p position) askedAt() time.Time { return p.asked }

// position returns a position that the server had at or after the given time.
func (b *Backend) position(ctx context.Context, since time.Time) (position, error) {
	return b.progress.read(ctx, since, b.ask)
}

// ask asks the server for the position. It does not reread the parts that are unchanged since last.
func (b *Backend) ask(ctx context.Context, last position) (position, error) {
	for {
		p := position{asked: time.Now()}
		var info *jetstream.StreamInfo
		if err := b.request(ctx, func(ctx context.Context) (err error) {
			info, err = b.stream.Info(ctx)
			return err
		}); err != nil {
			return p, err
		}
		if err := checkStream(info.Config, b.cfg); err != nil {
			return p, err
		}
		s := info.State
		p.created, p.sequences = info.Created, sequences{s.FirstSeq, s.LastSeq, s.Msgs}
		if !last.asked.IsZero() && p.created.Equal(last.created) && p.sequences == last.sequences {
			last.asked = p.asked
			return last, nil
		}
		var err error
		if p.mark, p.marked, err = b.readMark(ctx); err != nil {
			return p, err
		}
		if p.marked == 0 || p.mark.incomplete(s) {
			if err := b.restoreMark(ctx, info); err != nil && !errors.Is(err, errConflict) {
				return p, err
			}
			continue
		}
		p.version = informer.Version(p.mark.Horizon)
		// A version below the horizon would change nothing. One above it with another epoch is of before the restore of a backup.
		if last.mark.Epoch == p.mark.Epoch && p.created.Equal(last.created) && uint64(last.version) <= s.LastSeq {
			p.version = max(p.version, last.version)
		}
		// The last message belongs to a record, unless a term, a comparison or a mark was written last.
		for at := s.LastSeq; at > uint64(p.version); at-- {
			msg, err := b.first(ctx, at, "")
			if err != nil {
				return p, err
			}
			if msg != nil && strings.HasPrefix(msg.Subject, b.subjects.objects) {
				p.version = informer.Version(at)
			}
		}
		return p, nil
	}
}

// readMark returns the mark and its sequence, which is 0 if there is none.
func (b *Backend) readMark(ctx context.Context) (m mark, sequence uint64, err error) {
	msg, err := b.last(ctx, b.subjects.mark)
	if err != nil || msg == nil {
		return m, 0, err
	}
	if err := json.Unmarshal(msg.Data, &m); err != nil {
		return m, 0, fmt.Errorf("the mark of version %d: %w", msg.Sequence, err)
	}
	return m, msg.Sequence, nil
}

// incomplete reports whether another program has removed messages after the horizon. The library removes none of them. If the state of
// the stream is older than the mark, incomplete may miss that. It also does if as many older messages are left.
func (m *mark) incomplete(s jetstream.StreamState) bool {
	return s.LastSeq > m.Horizon && s.Msgs < s.LastSeq-m.Horizon
}

// restoreMark writes a mark into a stream that has none, because it is new or was purged, or whose history is incomplete. A watch cannot
// begin before the new mark.
func (b *Backend) restoreMark(ctx context.Context, info *jetstream.StreamInfo) error {
	last := info.State.LastSeq
	m := mark{Horizon: last, Trimmed: last, Epoch: last}
	if last > max(info.Config.FirstSeq, 1)-1 {
		// The mark itself has the next sequence. No watch can have been there.
		m = mark{Horizon: last + 1, Trimmed: max(info.State.FirstSeq, 1) - 1, Epoch: last + 1, Lost: true}
	}
	_, err := b.writeMark(ctx, m, headerExpectLast, last)
	return err
}

// writeMark writes a mark, on the condition that header states.
func (b *Backend) writeMark(ctx context.Context, m mark, header string, sequence uint64) (uint64, error) {
	msg := natsgo.NewMsg(b.subjects.mark)
	msg.Header.Set(header, strconv.FormatUint(sequence, 10))
	var err error
	if msg.Data, err = json.Marshal(m); err != nil {
		return 0, err
	}
	return b.publish(ctx, []*natsgo.Msg{msg})
}

// expired returns ErrExpired if a watch that began at position begin and has reached a version cannot continue at p.
func (p *position) expired(begin *position, at informer.Version) error {
	switch {
	case !p.created.Equal(begin.created):
		return fmt.Errorf("%w: the stream was created again at %v", backend.ErrExpired, p.created)
	case p.mark.Epoch != begin.mark.Epoch:
		return fmt.Errorf("%w: another program removed messages before version %d", backend.ErrExpired, p.mark.Epoch)
	case uint64(at) < p.mark.Horizon:
		return fmt.Errorf("%w: the changes before version %d are forgotten", backend.ErrExpired, p.mark.Horizon)
	case at > p.version:
		return fmt.Errorf("%w: the stream is at version %d, not at %d", backend.ErrExpired, p.version, at)
	}
	return nil
}

// start returns the version at which a watch after a version begins.
func (p *position) start(after informer.Version) informer.Version {
	if after == 0 && p.mark.Horizon == p.mark.Epoch && !p.mark.Lost {
		return informer.Version(p.mark.Epoch)
	}
	return after
}
