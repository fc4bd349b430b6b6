package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// reader reads the messages of some subjects in order. It is one consumer on the server, which lives no longer than the stream: a reader
// never continues in another stream of the same name.
type reader struct {
	b        *Backend
	name     string
	messages jetstream.MessagesContext
	next     uint64 // how many messages the server has sent, plus one
}

// message is one message.
type message struct {
	subject  string
	sequence uint64
	pending  uint64 // how many more there were when the consumer sent it
	data     []byte
	deleted  bool   // it is a tombstone
	expect   string // the sequence that the message has replaced
}

var (
	// errNothing means that there is no message yet.
	errNothing = errors.New("there is no message yet")

	// errGap means that a reader has lost messages, or its consumer. Another one may continue from its position.
	errGap = errors.New("the server has lost the consumer, or messages on the way")
)

const (
	heartbeat  = 2 * time.Second  // of a consumer that has nothing to send
	inactivity = 30 * time.Second // after which the server removes an unread consumer
)

// read begins to read. It reads the messages of subjects from a sequence on. If that is 0, it reads the last message of each subject, and
// all later ones.
func (b *Backend) read(ctx context.Context, from uint64, headersOnly bool, subjects ...string) (*reader, error) {
	cfg := jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubjects:    subjects,
		HeadersOnly:       headersOnly,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: inactivity,
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	r := &reader{b: b, next: 1}
	var consumer jetstream.Consumer
	err := b.request(ctx, func(ctx context.Context) (err error) {
		consumer, err = b.stream.CreateConsumer(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.name = consumer.CachedInfo().Name
	r.messages, err = consumer.Messages(
		jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(heartbeat), jetstream.PullExpiry(5*heartbeat),
		jetstream.WithMessagesErrOnMissingHeartbeat(true),
	)
	if err != nil {
		r.close(ctx)
		return nil, err
	}
	return r, nil
}

// close ends the consumer.
func (r *reader) close(ctx context.Context) {
	if r.messages != nil {
		r.messages.Stop()
	}
	if !r.b.nc.IsConnected() {
		return // the server removes it
	}
	_ = within(context.WithoutCancel(ctx), time.Second, func(ctx context.Context) error {
		return r.b.stream.DeleteConsumer(ctx, r.name)
	})
}

// read returns the next message, or errNothing if none arrives for a while.
func (r *reader) read(ctx context.Context, wait time.Duration) (m message, err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	msg, err := r.messages.Next(jetstream.NextContext(waiting))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return m, context.Cause(ctx)
	case waiting.Err() != nil:
		return m, errNothing
	default:
		return m, fmt.Errorf("%w: %w", errGap, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return m, err
	}
	if meta.Sequence.Consumer != r.next {
		return m, errGap
	}
	r.next++
	return message{
		subject: msg.Subject(), sequence: meta.Sequence.Stream, pending: meta.NumPending, data: msg.Data(),
		deleted: msg.Headers().Get(headerDeleted) != "", expect: msg.Headers().Get(headerExpect),
	}, nil
}
