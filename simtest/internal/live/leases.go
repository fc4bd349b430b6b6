package live

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
)

// leases is the store of leases, as seen by one process.
type leases struct{ of *life }

// enter waits while the process hangs.
func (l leases) enter() error {
	l.of.mu.Lock()
	hang := l.of.hang
	l.of.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if l.of.p.Dead() {
		return sim.ErrEnded
	}
	return nil
}

// Get implements [leaderelect.LeaseStore].
func (l leases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.of.driver.leases.Get(ctx, key)
}

// Create implements [leaderelect.LeaseStore].
func (l leases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.of.driver.leases.Create(ctx, e)
}

// Update implements [leaderelect.LeaseStore].
func (l leases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.enter(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.of.driver.leases.Update(ctx, e)
}

// Watch implements [leaderelect.Watcher]. A process that has lost its lease learns of it when told is closed.
func (l leases) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range l.of.driver.leases.Watch(ctx, key) {
			if told := l.of.untold(); told != nil {
				select {
				case <-told:
				case <-ctx.Done():
					return
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
