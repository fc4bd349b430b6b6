package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAReconcileFromBeforeTheBreakerOpenedDoesNotDecideTheTrial(t *testing.T) {
	for _, late := range []error{nil, errBoom, controller.ErrSkip} {
		bubble(t, fmt.Sprint("it ends with ", late), func(t *testing.T) {
			b := newBreaker(t, controller.BreakerConfig{Failures: 2, OpenFor: time.Minute})
			var begun log[string]
			c, _ := newController(t, controller.Config[string]{Gate: b, Workers: 8, RateLimiter: &limiter{delay: time.Hour}},
				func(_ context.Context, key string) (controller.Result, error) {
					begun.add(key)
					switch key {
					case "late":
						time.Sleep(65 * time.Second) // during the trial, which begins after 60 s
						return controller.Result{}, late
					case "trial":
						time.Sleep(10 * time.Second)
						return controller.Result{}, nil
					case "other":
						return controller.Result{}, nil
					}
					return controller.Result{}, errBoom
				})
			start(t, c.Run)
			c.Add("late")
			synctest.Wait()
			c.Add("fails")
			c.Add("fails too")
			synctest.Wait()
			until, open := b.OpenUntil()
			require.True(t, open)
			time.Sleep(time.Minute)
			c.Add("trial")
			synctest.Wait()
			c.Add("other")
			time.Sleep(9 * time.Second)
			synctest.Wait()
			assert.NotContains(t, begun.take(), "other", "the trial still runs")
			still, open := b.OpenUntil()
			assert.True(t, open)
			assert.Equal(t, until, still, "and nothing has opened the breaker anew")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			_, open = b.OpenUntil()
			assert.False(t, open, "the trial decides")
			assert.Contains(t, begun.take(), "other")
		})
	}
}

// modelBreaker is a breaker by its documentation: it remembers which reconciles it has let through in its present state.
type modelBreaker struct {
	state    string // closed, open, half-open
	until    time.Time
	failures int
	counts   map[int]bool // the reconciles, by number, that count
}

func (m *modelBreaker) change(state string, until time.Time) {
	*m = modelBreaker{state: state, until: until, counts: map[int]bool{}}
}

// enter reports whether the reconcile of that number may begin.
func (m *modelBreaker) enter(number int) bool {
	if m.state == "open" && !time.Now().Before(m.until) {
		m.change("half-open", m.until)
	}
	if m.state == "open" || m.state == "half-open" && len(m.counts) > 0 {
		return false
	}
	m.counts[number] = true
	return true
}

func (m *modelBreaker) leave(number int, o controller.Outcome) {
	if !m.counts[number] {
		return
	}
	delete(m.counts, number)
	switch o {
	case controller.Succeeded:
		if m.failures = 0; m.state == "half-open" {
			m.change("closed", time.Time{})
		}
	case controller.Failed:
		if m.failures++; m.state == "half-open" || m.failures == 3 {
			m.change("open", time.Now().Add(10*time.Second))
		}
	}
}

func (m *modelBreaker) trip(d time.Duration) {
	if until := time.Now().Add(d); m.state == "closed" || until.After(m.until) {
		m.change("open", until)
	}
}

func TestABreakerEqualsItsModelWhateverOverlaps(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			b := newBreaker(t, controller.BreakerConfig{Failures: 3})
			m := &modelBreaker{}
			m.change("closed", time.Time{})
			tickets := map[int]uint64{} // of the reconciles in flight
			var flying []int
			for step := range 200 {
				switch n := r.IntN(12); {
				case n < 5:
					ticket, wait := b.Enter()
					require.Equal(t, m.enter(step), wait == 0, "seed %d step %d", seed, step)
					if wait == 0 {
						tickets[step], flying = ticket, append(flying, step)
					}
				case n < 10 && len(flying) > 0:
					i := r.IntN(len(flying))
					number := flying[i]
					flying = append(flying[:i], flying[i+1:]...)
					o := []controller.Outcome{controller.Succeeded, controller.Failed, controller.Failed, controller.Skipped}[r.IntN(4)]
					err := map[bool]error{true: errBoom}[o != controller.Succeeded]
					b.Leave(tickets[number], o, err)
					m.leave(number, o)
				case n == 10:
					time.Sleep(time.Duration(r.IntN(8)) * time.Second)
				case n == 11 && r.IntN(5) == 0:
					d := time.Duration(1+r.IntN(15)) * time.Second
					b.Trip(d)
					m.trip(d)
				}
				until, open := b.OpenUntil()
				require.Equal(t, m.state != "closed", open, "seed %d step %d", seed, step)
				require.True(t, until.Equal(m.until), "seed %d step %d", seed, step)
			}
		})
	}
}
