package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// The headers of a message. The server stores them with it.
const (
	headerExpect        = jetstream.ExpectedLastSubjSeqHeader     // the sequence that the message has replaced; 0 is none
	headerExpectSubject = jetstream.ExpectedLastSubjSeqSubjHeader // another subject to compare
	headerExpectLast    = jetstream.ExpectedLastSeqHeader         // of the whole stream
	headerDeleted       = "Setpoint-Deleted"                      // set in a tombstone
	headerBatch         = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// The error codes of the server that have no name in jetstream.
const (
	codeIncompleteBatch = 10176 // a part of it was lost in transit or, before 2.14, too many are in flight
	codeTooManyBatches  = 10210
)

var (
	errConflict = errors.New("another writer was faster")
	errBusy     = errors.New("the server has too many atomic publishes under way")
)

// busyAttempts is how often a write is retried because the server was busy.
const busyAttempts = 200

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, kind, key string) (r backend.Record, err error) {
	subject, err := b.subjects.object(kind, key)
	if err == nil {
		r, err = b.get(ctx, subject, key)
	}
	if err != nil {
		return backend.Record{}, failed(ctx, fmt.Sprintf("get %.200s %.200q", kind, key), err)
	}
	return r, nil
}

// get returns the record of a subject.
func (b *Backend) get(ctx context.Context, subject, key string) (r backend.Record, err error) {
	msg, err := b.last(ctx, subject)
	if err != nil || msg == nil {
		return backend.Record{}, err
	}
	return decode(key, msg.Sequence, msg.Data)
}

// last returns the last message of a subject, or nil. The leader of the stream answers.
func (b *Backend) last(ctx context.Context, subject string) (msg *jetstream.RawStreamMsg, err error) {
	err = b.request(ctx, func(ctx context.Context) error {
		msg, err = b.stream.GetLastMsgForSubject(ctx, subject)
		return err
	})
	return found(msg, err)
}

// first returns the first message of a subject, which may be a pattern, at or after a sequence, or nil. The leader of the stream answers.
// An empty subject stands for the message with exactly that sequence.
func (b *Backend) first(ctx context.Context, sequence uint64, subject string) (msg *jetstream.RawStreamMsg, err error) {
	var options []jetstream.GetMsgOpt
	if subject != "" {
		options = append(options, jetstream.WithGetMsgSubject(subject))
	}
	err = b.request(ctx, func(ctx context.Context) error {
		msg, err = b.stream.GetMsg(ctx, sequence, options...)
		return err
	})
	return found(msg, err)
}

func found(msg *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return msg, nil
}

func decode(key string, sequence uint64, data []byte) (r backend.Record, err error) {
	if err := r.Adopt(data); err != nil {
		return backend.Record{}, fmt.Errorf("the record of version %d: %w", sequence, err)
	}
	r.Key, r.Version = key, informer.Version(sequence)
	return r, nil
}

// Transact implements [backend.Backend]. It reads, decides, and compares and swaps, and retries after a lost race.
func (b *Backend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	w := write{fences: make([]fence, len(fences))}
	doing := func() string { return fmt.Sprintf("write %.200s %.200q", kind, key) }
	var err error
	if w.subject, err = b.subjects.object(kind, key); err != nil {
		return backend.Record{}, failed(ctx, doing(), err)
	}
	for i, f := range fences {
		if err := checkName("lease", f.Lease, backend.MaxKey); err != nil {
			return backend.Record{}, failed(ctx, doing(), err)
		}
		w.fences[i] = fence{Fence: f, token: escape(f.Lease)}
	}
	busy := 0
	for attempt := 0; ; attempt++ {
		// Read the record first, then the terms: a term that still holds held when the record was read.
		have, err := b.get(ctx, w.subject, key)
		if err == nil {
			err = b.readTerms(ctx, w.fences)
		}
		if e := new(backend.FencedError); errors.As(err, &e) {
			return backend.Record{}, err
		}
		if err != nil {
			return backend.Record{}, failed(ctx, doing(), err)
		}
		next, err := decide(have)
		if err != nil {
			return backend.Record{}, err
		}
		if next == nil && !w.raises() {
			return have, nil
		}
		if ctx.Err() != nil {
			return backend.Record{}, failed(ctx, doing(), ctx.Err())
		}
		r, err := b.swap(ctx, &w, key, have, next)
		if errors.Is(err, errBusy) {
			busy++
		}
		switch {
		case err == nil:
			b.trim(ctx, r.Version)
			return r, nil
		case !errors.Is(err, errConflict) && (!errors.Is(err, errBusy) || busy >= busyAttempts):
			return backend.Record{}, failed(ctx, doing(), err)
		}
		if attempt > 0 { // writers that retry in step would collide again and again
			select {
			case <-time.After(rand.N(time.Millisecond << min(attempt, 5))):
			case <-ctx.Done():
				return backend.Record{}, failed(ctx, doing(), ctx.Err())
			}
		}
	}
}

// write is the part of a Transact that does not change between its attempts.
type write struct {
	subject string
	fences  []fence
}

// fence is a term, and the record of its lease.
type fence struct {
	backend.Fence
	token    string // of the lease, in subjects
	recorded uint64 // a term
	sequence uint64 // of the message that has it; 0 is none
}

// raises reports whether a term is greater than the recorded one.
func (w *write) raises() bool {
	for _, f := range w.fences {
		if f.Term > f.recorded {
			return true
		}
	}
	return false
}

// readTerms reads the recorded terms of the leases. It returns a FencedError if a term is over.
func (b *Backend) readTerms(ctx context.Context, fences []fence) error {
	for i := range fences {
		f := &fences[i]
		msg, err := b.last(ctx, b.subjects.fences+f.token)
		if err != nil {
			return err
		}
		f.recorded, f.sequence = 0, 0
		if msg != nil {
			if f.recorded, err = strconv.ParseUint(string(msg.Data), 10, 64); err != nil {
				return fmt.Errorf("the term of lease %q, of version %d: %w", f.Lease, msg.Sequence, err)
			}
			f.sequence = msg.Sequence
		}
		if err := f.Check(f.recorded); err != nil {
			return err
		}
	}
	return nil
}

// swap writes next in place of have, and the terms, in one atomic publish. It returns errConflict if another writer has written the key, or
// a term, since.
//
// The server compares one sequence for each message. So a term that need not be raised has a message that carries only the comparison. The
// record comes last, because the sequence of the last message is the acknowledged one.
func (b *Backend) swap(ctx context.Context, w *write, key string, have backend.Record, next *backend.Record) (backend.Record, error) {
	var messages []*natsgo.Msg
	for _, f := range w.fences {
		m := natsgo.NewMsg(b.subjects.fences + f.token)
		if f.Term > f.recorded {
			m.Data = strconv.AppendUint(nil, f.Term, 10)
		} else {
			m.Header.Set(headerExpectSubject, m.Subject)
			m.Subject = b.subjects.checks + f.token
		}
		m.Header.Set(headerExpect, strconv.FormatUint(f.sequence, 10))
		messages = append(messages, m)
	}
	r := have
	if next != nil {
		r = *next
		r.Key, r.Version = key, 0 // the server assigns the version
		m := natsgo.NewMsg(w.subject)
		m.Header.Set(headerExpect, strconv.FormatUint(uint64(have.Version), 10))
		if r.Deleted {
			m.Header.Set(headerDeleted, "1")
		}
		var err error
		if m.Data, err = r.MarshalBinary(); err != nil {
			return r, err
		}
		messages = append(messages, m)
	}
	sequence, err := b.publish(ctx, messages)
	if next != nil {
		r.Version = informer.Version(sequence)
	}
	return r, err
}

// publish publishes all messages, or none of them, and returns the sequence of the last one.
func (b *Backend) publish(ctx context.Context, messages []*natsgo.Msg) (sequence uint64, err error) {
	for _, m := range messages {
		// Check now, not in the middle of a batch: the server would keep its beginning for a while.
		if len(m.Data)+len(m.Subject)+overhead/8 > b.maxMessage {
			return 0, natsgo.ErrMaxPayload
		}
	}
	last := messages[len(messages)-1]
	if len(messages) > 1 {
		id := nuid.Next()
		for i, m := range messages {
			m.Header.Set(headerBatch, id)
			m.Header.Set(headerBatchSequence, strconv.Itoa(i+1))
		}
		last.Header.Set(headerBatchCommit, "1")
		for _, m := range messages[:len(messages)-1] {
			if err := b.nc.PublishMsg(m); err != nil {
				return 0, err
			}
		}
	}
	var reply *natsgo.Msg
	err = b.request(ctx, func(ctx context.Context) (err error) {
		reply, err = b.nc.RequestMsgWithContext(ctx, last)
		return err
	})
	if err != nil {
		return 0, err
	}
	var ack struct {
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("the acknowledgment %.100q: %w", reply.Data, err)
	}
	switch {
	case ack.Error == nil && ack.Sequence == 0:
		return 0, fmt.Errorf("the acknowledgment %.100q has no sequence", reply.Data)
	case ack.Error == nil:
		return ack.Sequence, nil
	}
	switch ack.Error.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return 0, errConflict
	case codeIncompleteBatch, codeTooManyBatches:
		return 0, fmt.Errorf("%w: %w", errBusy, ack.Error)
	}
	return 0, ack.Error
}
