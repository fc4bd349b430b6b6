package follow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// stream is a log whose writes wake a loop with a pace of 10 ms, unless that is deaf. It notes, in milliseconds, what happens when.
type stream struct {
	log
	wake  broadcast.Signal
	begin time.Time
	notes []string
	deaf  atomic.Bool
	lag   time.Duration // before the loop is woken that listens again
	seen  []time.Duration
}

func (s *stream) note(what string) {
	s.notes = append(s.notes, fmt.Sprint(what, " ", time.Since(s.begin).Milliseconds()))
}

// writeAt writes after so many milliseconds each.
func (s *stream) writeAt(ms ...int) {
	for i, at := range ms {
		time.AfterFunc(time.Duration(at)*time.Millisecond, func() {
			s.write(informer.Version(i + 1))
			if !s.deaf.Load() {
				s.wake.Wake()
			}
		})
	}
}

// run runs the loop for a time.
func (s *stream) run(t *testing.T, d time.Duration) {
	s.begin = time.Now()
	s.during = func() { s.note("read") }
	loop := s.loop(time.Hour, &s.wake)
	loop.Pace = 10 * time.Millisecond
	loop.Deaf = func(is bool) {
		assert.NotEqual(t, is, s.deaf.Swap(is))
		s.note(map[bool]string{true: "deaf", false: "listen"}[is])
		if !is {
			time.AfterFunc(s.lag, s.wake.Wake)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	require.ErrorIs(t, loop.Run(ctx, 0, func(string) bool {
		s.seen = append(s.seen, time.Since(s.begin))
		return true
	}), context.DeadlineExceeded)
	assert.False(t, s.deaf.Load(), "it leaves no trace")
}

func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		writes []int
		want   []string
	}{
		"changes that are far from each other are read at once": {[]int{100, 111, 150}, []string{"read 0", "read 100", "read 111", "read 150"}},
		"a change soon after a read waits for the pace":         {[]int{100, 103, 150}, []string{"read 0", "read 100", "read 110", "read 150"}},
		"a burst is read twice, and then until nothing is found": {[]int{100, 101, 102, 103, 104}, []string{
			"read 0", "read 100", "deaf 102", "read 110", "read 120", "listen 120", "read 130",
		}},
		"a stream is read every pace without being woken": {[]int{100, 104, 107, 111, 115, 118, 122, 123}, []string{
			"read 0", "read 100", "deaf 107", "read 110", "read 120", "read 130", "read 140", "listen 140", "read 150",
		}},
		"a slow stream is one too": {[]int{100, 109, 118, 127, 136, 145, 154}, []string{
			"read 0", "read 100", "read 110", "read 120", "read 130", "deaf 136", "read 140", "read 150", "read 160", "read 170", "listen 170", "read 180",
		}},
		"a pause makes a slow stream begin anew": {[]int{100, 109, 118, 127, 150, 159, 168, 177}, []string{
			"read 0", "read 100", "read 110", "read 120", "read 130", "read 150", "read 160", "read 170", "read 180",
		}},
		"a loop that ends in a stream listens again": {[]int{180, 181, 182, 192}, []string{
			"read 0", "read 180", "deaf 182", "read 190", "listen 200",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s stream
				s.writeAt(c.writes...)
				s.run(t, 200*time.Millisecond)
				assert.Equal(t, c.want, s.notes)
			})
		})
	}
}

// However changes come, each is seen within the pace, and at once after a pause. A change that comes while the connection begins to listen
// is not lost.
func TestPaceDelaysNoChangeForLonger(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var s stream
			s.lag = time.Duration(rnd.IntN(9)) * time.Millisecond
			var at []int
			for ms := 50; ms < 900; ms += rnd.IntN([]int{3, 12, 60}[rnd.IntN(3)]) + 1 {
				at = append(at, ms)
			}
			s.writeAt(at...)
			s.run(t, time.Second)
			require.Len(t, s.seen, len(at))
			last := time.Duration(-1)
			for i, ms := range at {
				written := time.Duration(ms) * time.Millisecond
				limit := 10 * time.Millisecond
				if s.lag > 0 {
					limit += s.lag // it is not woken before the connection listens
				}
				assert.LessOrEqual(t, s.seen[i]-written, limit, "seed %d, change at %d ms", seed, ms)
				if written > last+30*time.Millisecond+s.lag { // the stream has ended
					assert.Equal(t, written, s.seen[i], "seed %d, change at %d ms", seed, ms)
				}
				last = s.seen[i]
			}
		})
	}
}
