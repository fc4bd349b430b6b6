package owner_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Read your own writes: a key waits until the cache of an informer has seen the writes for it, and then continues at once.

// follow reports the versions of inf to exp, until ctx or inf ends.
func follow(ctx context.Context, inf *store.Informer[Replica], exp *expectations.Versions[string]) {
	for v := informer.Version(0); inf.WaitForVersion(ctx, v+1) == nil; {
		v = inf.Version()
		exp.VersionObserved(uint64(v))
	}
}

// writer writes replicas, and waits for a cache that lags behind.
type writer struct {
	*fixture
	source *lagging[Replica]
	cache  *store.Informer[Replica]
	exp    *expectations.Versions[string]
	let    []string // the keys that were let go
}

// write runs a test with a writer.
func write(t *testing.T, test func(w *writer)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		w := &writer{fixture: f, source: lag[Replica](f.replicas)}
		w.cache = mirror(t, w.source)
		w.exp = expectations.NewVersions(expectations.Config[string]{TTL: -1})
		w.exp.Notify(func(key string) { w.let = append(w.let, key) })
		ctx, cancel := context.WithCancel(t.Context())
		var follower sync.WaitGroup
		// Follows the informer. It ends with ctx; the test waits for it.
		follower.Go(func() { follow(ctx, w.cache, w.exp) })
		test(w)
		cancel()
		follower.Wait()
	})
}

func TestKeyWaitsExactlyUntilCacheShowsItsWrite(t *testing.T) {
	write(t, func(w *writer) {
		for _, key := range []string{"a", "b", "c"} {
			w.exp.ExpectVersion(key, uint64(w.replica(key, nil).Version))
			require.False(t, w.exp.SatisfiedExpectations(key))
		}
		w.source.deliver()
		w.source.deliver()
		require.Equal(t, []string{"a", "b"}, w.let)
		require.False(t, w.exp.SatisfiedExpectations("c"))
		w.exp.ExpectVersion("a", uint64(w.now("b").Version))
		require.True(t, w.exp.SatisfiedExpectations("a"), "the cache was updated before the write returned")
		w.source.deliver()
		require.Equal(t, []string{"a", "b", "c"}, w.let)
	})
}

func TestDeletionIsAwaitedByItsVersion(t *testing.T) {
	write(t, func(w *writer) {
		w.replica("a", nil)
		w.source.catchUp()
		last, err := w.replicas.Delete(w.t.Context(), "a")
		require.NoError(t, err)
		w.exp.ExpectVersion("key", uint64(last.Version))
		require.False(t, w.exp.SatisfiedExpectations("key"))
		w.source.deliver()
		require.Equal(t, []string{"key"}, w.let)
	})
}

func TestDeletionByOthersIsAwaitedByVersionOfLaterRead(t *testing.T) {
	write(t, func(w *writer) {
		w.replica("a", nil)
		w.source.catchUp()
		_, err := w.replicas.Delete(w.t.Context(), "a")
		require.NoError(t, err)
		w.app("web") // another kind has changed since: no event of replicas has the version of the read
		after, err := w.replicas.Select(w.t.Context(), store.Selector{Prefix: "a"})
		require.NoError(t, err)
		w.exp.ExpectVersion("key", uint64(after.Version))
		require.False(t, w.exp.SatisfiedExpectations("key"))
		w.source.deliver()
		time.Sleep(time.Second) // the store says now and then that nothing else has happened
		synctest.Wait()
		require.Equal(t, []string{"key"}, w.let)
	})
}

func TestWriteUnseenByHandlersMeetsExpectation(t *testing.T) {
	write(t, func(w *writer) {
		told, block := 0, make(chan struct{})
		_, err := w.cache.AddHandler(informer.Handler[string, store.Object[Replica]]{
			OnAdd: func(store.Object[Replica], bool) { told++; <-block },
		})
		require.NoError(t, err)
		w.replica("slow", nil)
		w.source.catchUp()
		w.exp.ExpectVersion("key", uint64(w.replica("short", nil).Version))
		require.False(t, w.exp.SatisfiedExpectations("key"))
		require.NoError(t, errOf(w.replicas.Delete(w.t.Context(), "short"))) // gone before the handler learns of it
		w.source.catchUp()
		require.Equal(t, []string{"key"}, w.let)
		close(block)
		synctest.Wait()
		require.Equal(t, 1, told)
	})
}
