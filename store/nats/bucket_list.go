package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
)

// everything matches all subjects of a stream: those of its keys, and perhaps others.
const everything = ">"

// bucketSnapshot is a bucket at one version.
type bucketSnapshot struct {
	version informer.Version
	has     *contents
	values  []message // the last ones of all keys that have one, in order of version
}

// snapshot reads a bucket at one version. A bucket has no snapshots, and a superseded message may be gone before it was read. The result has
// all keys anyway:
//
//  1. The leader tells the last sequence V. Then a consumer delivers the last message of each subject as of its creation, and all later
//     ones, in order. The snapshot reads beyond V, so it has every write that was acknowledged before. A superseded message that is gone has
//     a later successor.
//  2. The leader tells the last sequence L, and how many subjects have messages then. The snapshot reads until L. If as many subjects are
//     known as there were, all keys are known. A state that was superseded may be missing, as in a watch: its successor is above L, so a watch
//     after L yields it.
//  3. Otherwise, the successor of a key that is missing is above L: repeat from 2. If nothing is above L, there is no successor: the message
//     that the consumer was about to deliver has vanished, and an older one counts again. Then a new consumer begins.
func (b *Bucket[T]) snapshot(ctx context.Context, headersOnly bool) (bucketSnapshot, error) {
	for attempt := 1; ; attempt++ {
		s, err := b.snapshotOnce(ctx, headersOnly)
		if again := errors.Is(err, errMoved) || errors.Is(err, errGap); !again || attempt == listAttempts {
			return s, err
		}
	}
}

// errHot means that keys were changed faster than the server has sent their states.
var errHot = errors.New("the keys change faster than they can be read")

// mostRounds is how often a snapshot reads on.
const mostRounds = 1000

func (b *Bucket[T]) snapshotOnce(ctx context.Context, headersOnly bool) (s bucketSnapshot, err error) {
	before, err := b.position(ctx, time.Now())
	if err != nil {
		return s, err
	}
	r, err := b.handle.read(ctx, 0, headersOnly, everything)
	if err != nil {
		return s, err
	}
	defer r.close(ctx)
	read := snapshotReader[T]{b: b, r: r, headersOnly: headersOnly, left: r.pending}
	read.last = make(map[string]last, before.subjects)
	if err := read.until(ctx, before.last); err != nil {
		return s, err
	}
	for round := 1; ; round++ {
		now, err := b.position(ctx, time.Now())
		switch {
		case err != nil:
			return s, err
		case !now.created.Equal(before.created):
			return s, errMoved
		}
		begin := read.at
		if err := read.until(ctx, now.last); err != nil {
			return s, err
		}
		if now.last >= begin && read.subjects >= now.subjects {
			break
		}
		if read.at == begin {
			return s, fmt.Errorf("%w: the last message of a key has vanished", errGap)
		}
		if round == mostRounds {
			return s, errHot
		}
	}
	s.version = informer.Version(read.at)
	s.has = &contents{created: before.created, last: read.last, fresh: true}
	s.values = read.values[:0]
	for _, m := range read.values {
		if read.last[m.subject].sequence == m.sequence {
			s.values = append(s.values, m)
		}
	}
	clear(read.values[len(s.values):])
	return s, nil
}

// snapshotReader is what a snapshot has read.
type snapshotReader[T any] struct {
	b           *Bucket[T]
	r           *reader
	headersOnly bool
	at          uint64 // everything up to here was read
	left        uint64 // how much the server has after that, as far as it knew then
	subjects    uint64 // that were known at the sequence of the last until
	last        map[string]last
	values      []message
}

// until reads up to a sequence.
func (s *snapshotReader[T]) until(ctx context.Context, sequence uint64) error {
	s.subjects = uint64(len(s.last))
	for begun := time.Now(); s.at < sequence; {
		if s.left == 0 { // perhaps the rest was removed
			next, err := s.b.firstAfter(ctx, s.at)
			if err != nil {
				return err
			}
			if next == nil || next.Sequence > sequence {
				s.at = sequence
				return nil
			}
			s.left = 1
		}
		m, err := s.r.read(ctx, time.Now().Truncate(readStep).Add(2*readStep))
		switch {
		case errors.Is(err, errNothing) && time.Since(begun) > s.b.timeout:
			return fmt.Errorf("%w: nothing within %v", errGap, s.b.timeout)
		case errors.Is(err, errNothing):
			s.left = 0
		case err != nil:
			return err
		default:
			begun = time.Now()
			s.add(m)
			if s.at <= sequence {
				s.subjects = uint64(len(s.last))
			}
		}
	}
	return nil
}

func (s *snapshotReader[T]) add(m message) {
	s.left = m.pending
	if m.sequence <= s.last[m.subject].sequence { // delivered before, out of order
		return
	}
	s.at = max(s.at, m.sequence)
	live := isValue(m.header)
	s.last[m.subject] = lastOf(m.sequence, m.stored, live)
	if live && !s.headersOnly {
		s.values = append(s.values, m)
	}
}

// readStep is how long a snapshot waits for a message, once or twice, before it asks the leader whether there is one.
const readStep = 100 * time.Millisecond

// isValue reports whether a message of a bucket is a value: it marks no deletion, neither by a client nor by the server.
func isValue(h natsgo.Header) bool {
	switch op := h.Get("KV-Operation"); {
	case op != "":
		return op != "DEL" && op != "PURGE"
	default:
		return h.Get(jetstream.MarkerReasonHeader) == ""
	}
}

// firstAfter returns the first message after a sequence, or nil.
func (b *Bucket[T]) firstAfter(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error) {
	return b.ask(ctx, map[string]any{"seq": sequence + 1, "next_by_subj": everything})
}

// lastNow returns the last message of a subject, or nil.
func (b *Bucket[T]) lastNow(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return b.ask(ctx, map[string]any{"last_by_subj": subject})
}

// ask asks the leader of the stream for a message, and returns nil if there is none. The client would ask any replica, or a mirror: buckets
// allow that.
func (b *Bucket[T]) ask(ctx context.Context, what map[string]any) (*jetstream.RawStreamMsg, error) {
	request, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	var reply *natsgo.Msg
	if err := b.request(ctx, func(ctx context.Context) (err error) {
		reply, err = b.nc.RequestWithContext(ctx, b.api+"STREAM.MSG.GET.KV_"+b.cfg.Bucket, request)
		return err
	}); err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("the message %.100q: %w", reply.Data, err)
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case answer.Error != nil:
		return nil, answer.Error
	case m == nil:
		return nil, fmt.Errorf("the reply %.100q has no message", reply.Data)
	default:
		header := natsgo.Header{}
		if len(m.Header) > 0 {
			if header, err = natsgo.DecodeHeadersMsg(m.Header); err != nil {
				return nil, err
			}
		}
		return &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Header: header, Data: m.Data, Time: m.Time}, nil
	}
}
