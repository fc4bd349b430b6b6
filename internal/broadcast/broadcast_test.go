package broadcast_test

import (
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/internal/broadcast"
)

func TestWakeClosesAllChannelsSoFar(t *testing.T) {
	var s broadcast.Signal
	s.Wake() // without a waiter
	one, two := s.Next(), s.Next()
	if broadcast.IsClosed(one) || broadcast.IsClosed(two) {
		t.Fatal("a channel is closed before Wake")
	}
	s.Wake()
	if !broadcast.IsClosed(one) || !broadcast.IsClosed(two) {
		t.Fatal("Wake has not closed a channel")
	}
	if broadcast.IsClosed(s.Next()) {
		t.Fatal("Next returns a channel of an earlier Wake")
	}
}

// Each waiter checks after Next, as the package documentation says.
func TestNoChangeIsMissed(t *testing.T) {
	const goal = 1000
	var s broadcast.Signal
	var mu sync.Mutex
	n := 0
	var waiters sync.WaitGroup
	for range 4 {
		waiters.Go(func() {
			for {
				changed := s.Next()
				mu.Lock()
				reached := n == goal
				mu.Unlock()
				if reached {
					return
				}
				<-changed
			}
		})
	}
	for range goal {
		mu.Lock()
		n++
		mu.Unlock()
		s.Wake()
	}
	waiters.Wait()
}

func TestWakeAllocatesNothing(t *testing.T) {
	var s broadcast.Signal
	if n := testing.AllocsPerRun(10, s.Wake); n != 0 {
		t.Errorf("Wake allocates %v times", n)
	}
}
