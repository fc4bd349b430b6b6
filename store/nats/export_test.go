package nats

import (
	"context"
	"time"

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
