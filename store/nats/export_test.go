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

// intercepted calls a function after a consumer was created.
type intercepted struct {
	jetstream.Stream
	created func(name string)
}

func (s intercepted) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := s.Stream.CreateConsumer(ctx, cfg)
	if err == nil {
		s.created(c.CachedInfo().Name)
	}
	return c, err
}

// AfterConsumer calls f whenever the backend has created a consumer, and before it reads from it.
func (b *Backend) AfterConsumer(f func(name string)) { b.stream = intercepted{b.stream, f} }
