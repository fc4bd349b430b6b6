// Package testing takes the place of k8s.io/utils/clock/testing in client-go's tests, which .ci/peers runs in bubbles of testing/synctest: a step of
// the clock lets the time of the bubble pass.
package testing

import (
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// FakeClock shows the time of the bubble. Its tickers tick at the end of a step.
type FakeClock struct {
	clock.RealClock

	mu      sync.Mutex
	tickers []*ticker
}

func NewFakeClock(time.Time) *FakeClock { return &FakeClock{} }

func (c *FakeClock) HasWaiters() bool { return true }

func (c *FakeClock) Step(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tickers {
		if time.Since(t.last) >= t.period {
			t.last = time.Now()
			select {
			case t.c <- t.last:
			default:
			}
		}
	}
	synctest.Wait()
}

func (c *FakeClock) NewTicker(d time.Duration) clock.Ticker {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &ticker{c: make(chan time.Time, 1), period: d, last: time.Now()}
	c.tickers = append(c.tickers, t)
	return t
}

type ticker struct {
	c      chan time.Time
	period time.Duration
	last   time.Time
}

func (t *ticker) C() <-chan time.Time { return t.c }
func (t *ticker) Stop()               {}
