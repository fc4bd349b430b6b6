package nats

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
)

// Forget forgets the history before a version, as writers do little by little.
func (b *Backend) Forget(ctx context.Context, horizon informer.Version) error {
	b.trimmer.mu.Lock()
	defer b.trimmer.mu.Unlock()
	for {
		m, marked, err := b.readMark(ctx)
		switch {
		case err != nil:
			return err
		case m.Trimmed < m.Horizon:
			err = b.trimLocked(ctx, 0)
		case m.Horizon >= uint64(horizon):
			return nil
		default:
			m.Horizon = uint64(horizon)
			_, err = b.writeMark(ctx, m, headerExpect, marked)
		}
		if err != nil {
			return err
		}
		time.Sleep(b.trimmer.grace / 10)
	}
}

// SetGrace changes the time between an announcement and a removal.
func (b *Backend) SetGrace(d time.Duration) { b.trimmer.grace = d }

// Stream returns the name of the stream.
func (b *Backend) Stream() string { return b.cfg.Stream }

// Ask asks the server for the position of the stream, as other calls of the Backend do.
func (b *Backend) Ask(ctx context.Context) error {
	_, err := b.position(ctx, time.Now())
	return err
}

// intercepted calls functions after a consumer was created, and after the backend has begun to read from it.
type intercepted struct {
	jetstream.Stream
	created func(name string)
	begun   func(jetstream.MessagesContext) jetstream.MessagesContext
}

func (s intercepted) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := s.Stream.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.created(c.CachedInfo().Name)
	return interceptedConsumer{c, s.begun}, nil
}

type interceptedConsumer struct {
	jetstream.Consumer
	begun func(jetstream.MessagesContext) jetstream.MessagesContext
}

func (c interceptedConsumer) Messages(options ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	m, err := c.Consumer.Messages(options...)
	if err != nil {
		return nil, err
	}
	return c.begun(m), nil
}

// AfterConsumer calls f whenever the backend has created a consumer, and before it reads from it.
func (b *Backend) AfterConsumer(f func(name string)) {
	b.stream = intercepted{b.stream, f, func(m jetstream.MessagesContext) jetstream.MessagesContext { return m }}
}

// AfterConsumer calls f whenever a list or a watch has created a consumer, and before it reads from it.
func (b *Bucket[T]) AfterConsumer(f func()) {
	b.stream = intercepted{b.stream, func(string) { f() }, func(m jetstream.MessagesContext) jetstream.MessagesContext { return m }}
}

// AfterBegin calls f whenever the backend has begun to read from a consumer. The backend reads from the result.
func (b *Backend) AfterBegin(f func(jetstream.MessagesContext) jetstream.MessagesContext) {
	b.stream = intercepted{b.stream, func(string) {}, f}
}
