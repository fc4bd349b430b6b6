package follow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/follow"
)

var (
	errRead   = errors.New("the read has failed")
	errCancel = errors.New("canceled")
)

// plan is a run of Ahead. The times are such that no two things happen at once: reads end, uses end, and the context ends at different
// moments of a millisecond.
type plan struct {
	reads, uses []time.Duration // of each page
	fails       int             // the page whose read fails; none if there are fewer
	leaves      int             // the page at which use returns false; none if there are fewer
	cancel      time.Duration   // when the context ends
	stubborn    bool            // reads go on when their context has ended
}

func newPlan(r *rand.Rand) (p plan) {
	some := func() time.Duration { return time.Duration(r.IntN(20)) * time.Millisecond }
	for range 1 + r.IntN(6) {
		p.reads, p.uses = append(p.reads, some()+time.Microsecond), append(p.uses, some()+time.Nanosecond)
	}
	p.fails, p.leaves = r.IntN(3*len(p.reads)), r.IntN(3*len(p.reads))
	p.cancel = time.Duration(r.IntN(400))*time.Millisecond + 100*time.Microsecond
	p.stubborn = r.IntN(2) == 0
	return p
}

// expected returns which pages are used, when Ahead returns, and its error.
func (p plan) expected() (used []int, end time.Duration, err error) {
	var now time.Duration  // when the read of a page begins, which is when the use of the page before begins
	var free time.Duration // when that use ends
	for i, takes := range p.reads {
		done := now + takes
		ends := p.cancel < done && !p.stubborn // by its context
		if ends {
			done = max(now, p.cancel)
		}
		switch next := max(free, done); {
		case ends:
			return used, next, errCancel
		case i == p.fails:
			return used, next, errRead
		case p.cancel < next:
			return used, next, errCancel
		default:
			now, free = next, next+p.uses[i]
		}
		used = append(used, i)
		if i == p.leaves {
			end := free
			if next := i + 1; next < len(p.reads) && p.stubborn {
				end = max(end, now+p.reads[next])
			}
			return used, end, nil
		}
	}
	return used, free, nil
}

func TestPagePrefetchMatchesModel(t *testing.T) {
	for seed := range uint64(3000) {
		p := newPlan(rand.New(rand.NewPCG(seed, 1)))
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			begin := time.Now()
			stop := time.AfterFunc(p.cancel, func() { cancel(errCancel) })
			defer stop.Stop()
			next, reading, over := 0, false, false
			var began atomic.Int32 // uses
			var used []int
			err := follow.Ahead(ctx, func(ctx context.Context) (int, bool, error) {
				i := next
				next++
				assert.False(t, reading || over, "one read at a time, and none after the last")
				assert.LessOrEqual(t, i, int(began.Load())+1, "at most one page ahead")
				reading = true
				defer func() { reading = false }()
				done := ctx.Done()
				if p.stubborn {
					done = nil
				}
				select {
				case <-time.After(p.reads[i]):
				case <-done:
					over = true
					return i, true, context.Cause(ctx)
				}
				more := i+1 < len(p.reads)
				over = !more || i == p.fails
				if i == p.fails {
					return i, true, errRead
				}
				return i, more, nil
			}, func(i int) bool {
				began.Add(1)
				time.Sleep(p.uses[i])
				used = append(used, i)
				return i != p.leaves
			})
			took := time.Since(begin)
			wantUsed, want, wantErr := p.expected()
			assert.Equal(t, wantUsed, used)
			assert.Equal(t, wantErr, err)
			assert.Equal(t, want, took)
			assert.False(t, reading, "the last read has returned")
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, p)
			}
		})
	}
}

func TestNothingIsReadAfterConsumerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		assert.PanicsWithValue(t, "of the consumer", func() {
			first := true
			_ = follow.Ahead(t.Context(), func(ctx context.Context) (int, bool, error) {
				if first {
					first = false
					return 1, true, nil
				}
				<-ctx.Done()
				ended = ctx.Err()
				return 0, true, ended
			}, func(int) bool { panic("of the consumer") })
		})
		assert.ErrorIs(t, ended, context.Canceled)
	})
}

// A log grows while a slow consumer follows it in pages. The consumer receives each change once, in order, soon after
// the last wake-up. Each bookmark is true: every change up to its version has been yielded, and none is added later.
func TestPrefetchingWatchMissesNothing(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := log{batch: 1 + r.IntN(4)}
		l.during = func() { time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) } // in the goroutine that reads, one at a time
		writes, failAt, leaveAt := 1+r.IntN(60), r.IntN(200), r.IntN(200)
		pauses := rand.New(rand.NewPCG(seed, 3))
		delays := rand.New(rand.NewPCG(seed, 4))
		synctest.Test(t, func(t *testing.T) {
			var wake broadcast.Signal
			var last time.Time // of a write
			wrote := make(chan struct{})
			go func() { // writes some changes
				defer close(wrote)
				for range writes {
					time.Sleep(time.Duration(pauses.IntN(4)) * time.Millisecond)
					l.write(l.latest() + 1 + informer.Version(pauses.IntN(2)))
					last = time.Now()
					wake.Wake()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than until a poll
			defer cancel()
			loop := l.loop(time.Hour, &wake)
			read, failed := loop.Read, false
			loop.Read = func(ctx context.Context, after informer.Version) (follow.Page[string], error) {
				if l.reads == failAt {
					failed = true
					return follow.Page[string]{}, errRead
				}
				return read(ctx, after)
			}
			var reported []informer.Version
			var at informer.Version
			var latest time.Time
			n := 0
			err := loop.Run(ctx, 0, func(event string) bool {
				time.Sleep(time.Duration(delays.IntN(3)) * time.Millisecond)
				var v informer.Version
				if _, err := fmt.Sscanf(event, "change %d", &v); err == nil {
					reported, latest = append(reported, v), time.Now()
				} else {
					_, err := fmt.Sscanf(event, "bookmark %d", &v)
					require.NoError(t, err)
					l.mu.Lock()
					i, found := slices.BinarySearch(l.changes, v)
					l.mu.Unlock()
					if found {
						i++
					}
					assert.LessOrEqual(t, i, len(reported), "a bookmark covers an event that was not yielded")
				}
				assert.GreaterOrEqual(t, v, at)
				at = v
				n++
				return n != leaveAt
			})
			<-wrote
			switch {
			case n == leaveAt:
				require.NoError(t, err)
			case failed:
				require.ErrorIs(t, err, errRead)
			default:
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Less(t, latest.Sub(last), time.Second)
				assert.Len(t, reported, writes)
			}
			assert.True(t, slices.Equal(l.changes[:len(reported)], reported), "each change once, in order")
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// The first page is read in the goroutine of the caller, who may capture a panic there. The second one is not.
func TestPanicOrExitOfReadAheadIsItsError(t *testing.T) {
	for want, end := range map[string]func(){
		"panic: of the reader":               func() { panic("of the reader") },
		"the read has called runtime.Goexit": runtime.Goexit,
	} {
		synctest.Test(t, func(t *testing.T) {
			var used []int
			n := 0
			err := follow.Ahead(t.Context(), func(context.Context) (int, bool, error) {
				if n++; n == 2 {
					end()
				}
				return n, true, nil
			}, func(page int) bool {
				used = append(used, page)
				return true
			})
			require.EqualError(t, err, want)
			assert.Equal(t, []int{1}, used)
		})
	}
}
