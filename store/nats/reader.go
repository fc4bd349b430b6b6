package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// handle is one stream, and how to ask the server for it.
type handle struct {
	nc      *natsgo.Conn
	stream  jetstream.Stream
	timeout time.Duration // of a request
}

// request calls f with a context that ends after the timeout.
func (h *handle) request(ctx context.Context, f func(ctx context.Context) error) error {
	return within(ctx, h.timeout, f)
}

// reader reads the messages of some subjects in order. It is one consumer on the server, which lives no longer than the stream: a reader
// never continues in another stream of the same name.
type reader struct {
	h        *handle
	name     string
	pending  uint64 // how many messages there were when the consumer was created
	messages jetstream.MessagesContext
	next     uint64 // how many messages the server has sent, plus one

	// The context of the last read, and when it ends. It costs more than a message, so later reads that end at the same time share it.
	waiting context.Context
	release context.CancelFunc
	until   time.Time
	option  jetstream.NextOpt
}

// message is one message.
type message struct {
	subject  string
	sequence uint64
	pending  uint64 // how many more there were when the consumer sent it
	stored   time.Time
	header   natsgo.Header
	data     []byte
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

// read begins to read. It reads the messages of subjects from a sequence on. If that is 0, it reads the last
// message of each subject, and all later ones.
func (h *handle) read(ctx context.Context, from uint64, headersOnly bool, subjects ...string) (*reader, error) {
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
	r := &reader{h: h, next: 1, release: func() {}}
	var consumer jetstream.Consumer
	err := h.request(ctx, func(ctx context.Context) (err error) {
		consumer, err = h.stream.CreateConsumer(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.name, r.pending = consumer.CachedInfo().Name, consumer.CachedInfo().NumPending
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
	r.release()
	if r.messages != nil {
		r.messages.Stop()
	}
	if !r.h.nc.IsConnected() {
		return // the server removes it
	}
	_ = within(context.WithoutCancel(ctx), time.Second, func(ctx context.Context) error {
		return r.h.stream.DeleteConsumer(ctx, r.name)
	})
}

// read returns the next message, or errNothing if none arrives before a time. All reads of a reader have the same ctx.
func (r *reader) read(ctx context.Context, until time.Time) (m message, err error) {
	if !until.Equal(r.until) {
		r.release()
		r.waiting, r.release = context.WithDeadline(ctx, until)
		r.until, r.option = until, jetstream.NextContext(r.waiting)
	}
	msg, err := r.messages.Next(r.option)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return m, context.Cause(ctx)
	case r.waiting.Err() != nil:
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
		subject: msg.Subject(), sequence: meta.Sequence.Stream, pending: meta.NumPending, stored: meta.Timestamp,
		header: msg.Headers(), data: msg.Data(),
	}, nil
}

// await returns the next message, or errNothing if none arrives within the timeout of a request.
func (r *reader) await(ctx context.Context) (message, error) {
	until, timeout := r.until, r.h.timeout
	if time.Until(until) < timeout {
		until = time.Now().Add(timeout + timeout/4) // many messages share it
	}
	return r.read(ctx, until)
}
