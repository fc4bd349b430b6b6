package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
)

func nothing(context.Context) error { return nil }

func TestLowerTermIsRejected(t *testing.T) {
	var g fence.Guard
	assert.Zero(t, g.Highest())
	for _, c := range []struct {
		term uint64
		ok   bool
	}{{0, true}, {3, true}, {2, false}, {3, true}, {0, false}, {7, true}, {3, false}, {7, true}} {
		ran := false
		err := g.Do(t.Context(), c.term, func(context.Context) error { ran = true; return nil })
		assert.Equal(t, c.ok, err == nil, "term %d: %v", c.term, err)
		assert.Equal(t, c.ok, ran, "term %d", c.term)
		if !c.ok {
			require.ErrorIs(t, err, fence.ErrStale)
		}
	}
	require.ErrorIs(t, g.Raise(6), fence.ErrStale)
	require.NoError(t, g.Raise(8))
	require.ErrorIs(t, g.Do(t.Context(), 7, nothing), fence.ErrStale)
	assert.Equal(t, uint64(8), g.Highest())
}

func TestGuardReturnsErrorAndSurvivesPanic(t *testing.T) {
	var g fence.Guard
	boom := errors.New("boom")
	require.Equal(t, boom, g.Do(t.Context(), 1, func(context.Context) error { return boom }))
	require.Panics(t, func() { _ = g.Do(t.Context(), 1, func(context.Context) error { panic(boom) }) })
	require.NoError(t, g.Do(t.Context(), 2, nothing), "and blocks no other call")
}

func TestEndedContextStartsNoWork(t *testing.T) {
	var g fence.Guard
	why := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := g.Do(ctx, 3, func(context.Context) error { t.Error("it begins"); return nil })
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, g.Do(t.Context(), 2, nothing), fence.ErrStale, "its term was seen")
	require.NoError(t, g.Do(t.Context(), 4, nothing), "it blocks no other call")
}

func TestGreaterTermWaitsForWorkOfLowerTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		begin := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		began := map[string]time.Duration{}
		do := func(name string, term uint64, took time.Duration) {
			wg.Go(func() {
				assert.NoError(t, g.Do(t.Context(), term, func(context.Context) error {
					mu.Lock()
					began[name] = time.Since(begin)
					mu.Unlock()
					time.Sleep(took)
					return nil
				}))
			})
			synctest.Wait()
		}
		do("a", 1, 10*time.Second)
		do("b", 1, 4*time.Second)
		do("c", 2, 5*time.Second)
		do("d", 2, time.Second)
		require.ErrorIs(t, g.Do(t.Context(), 1, nothing), fence.ErrStale, "it is barred at once")
		time.Sleep(11 * time.Second)
		do("e", 3, time.Second) // while c works
		wg.Wait()
		assert.Equal(t, map[string]time.Duration{
			"a": 0, "b": 0, "c": 10 * time.Second, "d": 10 * time.Second, "e": 15 * time.Second,
		}, began)
	})
}

func TestWaitEndsWithContextOrGreaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.Do(t.Context(), 1, func(context.Context) error { <-release; return nil }) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Do(ctx, 2, nothing), context.DeadlineExceeded)
		require.ErrorIs(t, g.Do(t.Context(), 1, nothing), fence.ErrStale, "it still bars lower terms")

		barred := make(chan error, 1)
		wg.Go(func() { barred <- g.Do(t.Context(), 2, nothing) })
		synctest.Wait()
		wg.Go(func() { assert.NoError(t, g.Do(t.Context(), 3, nothing)) })
		synctest.Wait()
		select {
		case err := <-barred:
			require.ErrorIs(t, err, fence.ErrStale, "at once, though the work of term 1 continues")
		default:
			t.Error("a waiter is not told that a greater term was seen")
		}
		close(release)
		wg.Wait()
	})
}

func TestLastingWorkEndsWhenGreaterTermIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		var wg sync.WaitGroup
		var order []string
		wg.Go(func() {
			assert.NoError(t, g.DoUntilStale(t.Context(), 1, func(ctx context.Context) error {
				<-ctx.Done()
				var stale *fence.StaleError
				if assert.ErrorAs(t, context.Cause(ctx), &stale) {
					assert.Equal(t, fence.StaleError{Term: 1, Have: 3}, *stale)
				}
				time.Sleep(time.Second)
				order = append(order, "old")
				return nil
			}))
		})
		synctest.Wait()
		require.NoError(t, g.Do(t.Context(), 1, nothing), "the same term stops nothing")
		require.Error(t, g.Do(t.Context(), 0, nothing), "nor does a lower one")
		synctest.Wait()
		require.Empty(t, order)
		require.NoError(t, g.Do(t.Context(), 3, func(context.Context) error { order = append(order, "new"); return nil }))
		assert.Equal(t, []string{"old", "new"}, order, "the successor waits until it has returned")
		wg.Wait()

		ctx, cancel := context.WithCancelCause(t.Context())
		own := errors.New("own")
		require.ErrorIs(t, g.DoUntilStale(ctx, 3, func(ctx context.Context) error {
			cancel(own)
			<-ctx.Done()
			return context.Cause(ctx)
		}), own)
		require.Panics(t, func() { _ = g.DoUntilStale(t.Context(), 3, func(context.Context) error { panic("boom") }) })
		require.NoError(t, g.Do(t.Context(), 4, nothing))
	})
}

func TestStaleErrorNamesBothTerms(t *testing.T) {
	var g fence.Guard
	require.NoError(t, g.Raise(7))
	err := g.Do(t.Context(), 6, nothing)
	require.Equal(t, &fence.StaleError{Term: 6, Have: 7}, err)
	require.EqualError(t, err, "fence: term 6 after term 7: term is stale")
	var r fence.Register[int]
	_, err = r.Read(7)
	require.NoError(t, err)
	require.Equal(t, &fence.StaleError{Term: 6, Have: 7}, r.Write(6, 1))
	err = &fence.StaleError{Lease: "shop", Term: 6, Have: 7}
	require.EqualError(t, err, `fence: lease "shop": term 6 after term 7: term is stale`)
	require.ErrorIs(t, err, fence.ErrStale)
}

func TestRegisterAcceptsOnlyNewestLeadersWrites(t *testing.T) {
	var r fence.Register[string]
	v, term := r.Peek()
	assert.Empty(t, v)
	assert.Zero(t, term)
	require.NoError(t, r.Write(2, "a"))
	require.ErrorIs(t, r.Write(1, "b"), fence.ErrStale)
	v, err := r.Read(3)
	require.NoError(t, err)
	assert.Equal(t, "a", v)
	require.ErrorIs(t, r.Write(2, "c"), fence.ErrStale, "a read bars lower terms, too")
	_, err = r.Read(2)
	require.ErrorIs(t, err, fence.ErrStale)
	v, term = r.Peek()
	assert.Equal(t, "a", v)
	assert.Equal(t, uint64(3), term)
}

// The invariants of a guard, checked from within: no two terms at a time, and terms never decrease.
func TestNoTwoTermsEnterTogether(t *testing.T) {
	var g fence.Guard
	var mu sync.Mutex
	inside, newest := map[uint64]int{}, uint64(0)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for n := range 500 {
				term := uint64(n/4) + random.Uint64N(6)
				err := g.Do(context.Background(), term, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					inside[term]++
					if len(inside) > 1 || term < newest {
						t.Errorf("term %d is let in after %d, beside %v", term, newest, inside)
					}
					newest = term
					mu.Unlock()
					for range random.IntN(100) {
						_ = g.Highest() // others have a chance
					}
					mu.Lock()
					if inside[term]--; inside[term] == 0 {
						delete(inside, term)
					}
					return nil
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	assert.Positive(t, newest)
}
