package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// follow returns the pairs of a watch from version 0 as text, until it ends or pull is not called any more.
func follow(t *testing.T, ctx context.Context, s store.Store[thing]) (pull func() string) {
	next, stop := iter.Pull2(s.Watch(ctx, 0))
	t.Cleanup(stop)
	return func() string {
		switch e, err, ok := next(); {
		case !ok:
			return "end"
		case err != nil:
			return err.Error()
		default:
			return fmt.Sprint(e.Type, " ", e.Object.Key)
		}
	}
}

func TestWatchFailsImmediatelyOrAfterEvents(t *testing.T) {
	for after := range 3 {
		for text, fault := range map[string]interceptor.Fault{
			"store: watch thing: version is no longer in the history of the source": interceptor.Fail(informer.ErrExpired),
			"store: watch thing: the connection was lost, the outcome is unknown":   interceptor.LoseReply(),
		} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := intercepted(t)
				require.NoError(t, calls["create"](t.Context(), s))
				in := s.Inject(interceptor.Rule{Op: "watch", After: after, Fault: fault})
				pull := follow(t, t.Context(), s)
				for i, want := range []string{"Added web", "Added new"}[:after] {
					assert.Zero(t, in.Hits())
					assert.Equal(t, want, pull(), i)
				}
				assert.Equal(t, text, pull())
				assert.Equal(t, 1, in.Hits())
				assert.Equal(t, "end", pull())
				last := s.Calls()[len(s.Calls())-1]
				assert.True(t, last.Op == "watch" && last.Done && last.Hit && last.Err != nil)
				assert.Equal(t, "Added web", follow(t, t.Context(), s)(), "the next watch is not affected")
			})
		}
	}
}

func TestHangingWatchIsSilentThenMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memory := intercepted(t)
		in := s.Inject(interceptor.Rule{Op: "watch", After: 1, Times: -1, Fault: interceptor.Hang()})
		pull := follow(t, t.Context(), s)
		require.Equal(t, "Added web", pull())
		require.NoError(t, calls["create"](t.Context(), memory))
		reported := make(chan string)
		go func() { reported <- pull() }() // ends when the rule is removed; waited for below
		time.Sleep(time.Hour)
		select {
		case line := <-reported:
			t.Fatal("not silent: " + line)
		default:
		}
		in.Remove()
		assert.Equal(t, "Added new", <-reported)

		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		s.Inject(interceptor.Rule{Op: "watch", Fault: interceptor.Hang()})
		pull = follow(t, ctx, s)
		cancel(cause)
		assert.Equal(t, "enough", pull(), "the cause itself, as of any watch")
	})
}

func TestBreakWatchesEndsOpenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := intercepted(t)
		waiting, hanging := follow(t, t.Context(), s), follow(t, t.Context(), s)
		require.Equal(t, "Added web", waiting())
		s.Inject(interceptor.Rule{Op: "watch", Fault: interceptor.Hang()})
		reported := make(chan string)
		for _, pull := range []func() string{waiting, hanging} {
			go func() { reported <- pull() }() // ends when the watches are broken; waited for below
		}
		synctest.Wait()
		s.BreakWatches(errors.New("cut"))
		assert.Equal(t, "store: watch thing: cut", <-reported)
		assert.Equal(t, "store: watch thing: cut", <-reported)
		assert.Equal(t, "Added web", follow(t, t.Context(), s)(), "the next watch")
	})
}

func TestBookmarksAndRemovedRulesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		memory, err := store.Open[thing](db, "thing", store.Config[thing]{})
		require.NoError(t, err)
		other, err := store.Open[thing](db, "other", store.Config[thing]{})
		require.NoError(t, err)
		s := interceptor.New[thing](memory)
		in := s.Inject(interceptor.Rule{Op: "watch", After: 1, Times: -1, Fault: interceptor.LoseReply()})
		require.NoError(t, calls["create"](t.Context(), other))
		pull, unharmed := follow(t, t.Context(), s), follow(t, t.Context(), s)
		assert.Equal(t, "Bookmark ", pull())
		assert.Equal(t, "Bookmark ", unharmed())
		require.NoError(t, calls["create"](t.Context(), memory))
		assert.Equal(t, "Added new", pull())
		assert.Contains(t, pull(), "lost")
		in.Remove()
		assert.Equal(t, "Added new", unharmed())
		require.NoError(t, errOf(memory.Delete(t.Context(), "new")))
		assert.Equal(t, "Deleted new", unharmed())
		assert.Equal(t, 1, in.Hits())
	})
}

func TestWatchFaultFiresOnceAndEndsWatch(t *testing.T) {
	s, memory := intercepted(t)
	for n := range 3 {
		_, err := memory.Create(t.Context(), object{Key: fmt.Sprint(n)})
		require.NoError(t, err)
	}
	struck := 0
	s.Inject(interceptor.Rule{Op: "watch", After: 1, Fault: interceptor.Before(func(context.Context) error { struck++; return nil })})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for _, err := range s.Watch(ctx, 0) {
		if err != nil {
			assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: "watch", Done: true, Err: err, Hit: true}}, s.Calls())
			break
		}
		if seen++; seen == 4 {
			cancel()
		}
	}
	assert.Equal(t, 4, seen)
	assert.Equal(t, 1, struck)
}

func TestBreakingLoopEndsWatch(t *testing.T) {
	s, _ := intercepted(t)
	for range s.Watch(t.Context(), 0) {
		assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: "watch"}}, s.Calls())
		break
	}
	assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: "watch", Done: true}}, s.Calls())
}

// errOf returns the error of a call that returns an object too.
func errOf(_ object, err error) error { return err }
