package memlease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/wait"
)

const key = "lease"

func TestWatchYieldsCurrentRecordAndEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := memlease.New()
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range s.Watch(ctx, key) {
				assert.NoError(t, err)
				assert.Equal(t, key, e.Key)
				assert.Equal(t, e.Version == "", e.Value == nil)
				seen = append(seen, string(e.Value))
			}
		}()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, want, seen)
		}
		expect("")
		e, err := s.Create(ctx, leaderelect.Entry{Key: key, Value: []byte("a")})
		require.NoError(t, err)
		expect("", "a")
		_, err = s.Create(ctx, leaderelect.Entry{Key: "another", Value: []byte("x")})
		require.NoError(t, err)
		expect("", "a")
		e.Value = []byte("b")
		_, err = s.Update(ctx, e)
		require.NoError(t, err)
		expect("", "a", "b")
		s.Delete(key)
		expect("", "a", "b", "")
		s.Put(leaderelect.Entry{Key: key, Value: []byte("c")})
		expect("", "a", "b", "", "c")
		cancel()
		<-done
		s.Delete(key)
		expect("", "a", "b", "", "c")
	})
}

func TestSlowWatchYieldsNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlease.New()
		s.Put(leaderelect.Entry{Key: key, Value: []byte{0}})
		var seen []byte
		go func() {
			time.Sleep(time.Second)
			for n := range 100 {
				s.Put(leaderelect.Entry{Key: key, Value: []byte{byte(n + 1)}})
			}
		}()
		for e := range s.Watch(t.Context(), key) {
			time.Sleep(2 * time.Second)
			if seen = append(seen, e.Value[0]); e.Value[0] == 100 {
				break
			}
		}
		assert.Equal(t, []byte{0, 100}, seen)
	})
}

func TestListReturnsSortedKeysWithPrefix(t *testing.T) {
	s := memlease.New()
	for _, k := range []string{"b", "a/2", "a", "a/1", "a/10", "A/1", ""} {
		s.Put(leaderelect.Entry{Key: k, Value: []byte("of " + k)})
	}
	for prefix, want := range map[string][]string{
		"": {"", "A/1", "a", "a/1", "a/10", "a/2", "b"}, "a/": {"a/1", "a/10", "a/2"}, "a/1": {"a/1", "a/10"}, "c": nil,
	} {
		list, err := s.List(t.Context(), prefix)
		require.NoError(t, err)
		var keys []string
		for _, e := range list {
			keys = append(keys, e.Key)
			got, err := s.Get(t.Context(), e.Key)
			require.NoError(t, err)
			assert.Equal(t, got, e)
			e.Value[0] = '#'
			again, _ := s.Get(t.Context(), e.Key)
			assert.Equal(t, got, again, "a copy")
		}
		assert.Equal(t, want, keys, "%q", prefix)
	}
}

func TestFloorGrowsWithEveryWriteAndIsKept(t *testing.T) {
	s := memlease.New()
	var last uint64
	for range 3 {
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: key, Floor: 1000})
		require.NoError(t, err)
		require.Greater(t, e.Floor, last)
		last = e.Floor
		e, err = s.Update(t.Context(), e)
		require.NoError(t, err)
		require.Greater(t, e.Floor, last)
		last = e.Floor
		got, err := s.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, last, got.Floor)
		s.Delete(key)
	}
	assert.Less(t, last, uint64(1000))
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlease.New()
		boom := errors.New("boom")
		var calls []memlease.Call
		fail := func(context.Context, memlease.Call) error { return boom }
		note := func(_ context.Context, c memlease.Call) error { calls = append(calls, c); return nil }

		s.Inject(memlease.Faults{Before: fail, After: note})
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: key})
		require.ErrorIs(t, err, boom)
		assert.Zero(t, e)
		assert.Empty(t, calls)
		s.Inject(memlease.Faults{Before: note, After: fail})
		e, err = s.Create(t.Context(), leaderelect.Entry{Key: key, Value: []byte("a")})
		require.ErrorIs(t, err, boom, "the reply is lost")
		assert.Zero(t, e)
		_, err = s.List(t.Context(), "le")
		require.ErrorIs(t, err, boom)
		assert.Equal(t, []memlease.Call{{Op: "create", Key: key}, {Op: "list", Key: "le"}}, calls)

		s.Inject(memlease.Faults{Before: func(ctx context.Context, _ memlease.Call) error { return wait.Sleep(ctx, time.Hour) }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err = s.Get(ctx, key)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begin))

		s.Inject(memlease.Faults{})
		e, err = s.Get(t.Context(), key)
		require.NoError(t, err, "it took effect")
		assert.Equal(t, "a", string(e.Value))
	})
}

func TestCallAfterEndOfContextReturnsCause(t *testing.T) {
	cause := errors.New("the replica drains")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s := memlease.New()
	_, err := s.Get(ctx, "lease")
	require.ErrorIs(t, err, cause)
	_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, cause)
}
