package cookbook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// The clock of the bubble is simulated, so this test of an hour takes milliseconds. synctest.Wait returns when the controller has nothing to do.
func TestReconcilerInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sites := store.NewMemory(store.MemoryConfig{})
		stored, err := store.Open[Site](sites, "Site", store.Config[Site]{})
		require.NoError(t, err)
		cached, err := informer.New(stored, store.Key, informer.Config{})
		require.NoError(t, err)
		c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
			site, ok := cached.Get(name)
			if !ok {
				return controller.Result{}, nil
			}
			return expire(ctx, site.Value, func(ctx context.Context, name string) error { _, err := stored.Delete(ctx, name); return err })
		}, controller.Config[string]{}, controller.For(cached))
		require.NoError(t, err)
		m, err := manager.New(manager.Config{}, c)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go m.Run(ctx)

		_, err = stored.Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Name: "berlin", Expires: time.Now().Add(time.Hour)}})
		require.NoError(t, err)
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		_, there := cached.Get("berlin")
		assert.True(t, there)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, there = cached.Get("berlin")
		assert.False(t, there, "removed at its time, although nothing happened then")
	})
}

// world is a source of sites, and an informer of it.
func world(t *testing.T, sites ...Site) (*informertest.Source[string, Site], *informer.Informer[string, Site]) {
	name := func(s Site) string { return s.Name }
	source := informertest.NewSource(name)
	for _, s := range sites {
		source.Put(s)
	}
	cached, err := informer.New(source, name, informer.Config{})
	require.NoError(t, err)
	return source, cached
}

// log is a reconcile function that notes its keys.
type log struct {
	mu   sync.Mutex
	keys []string
}

func (l *log) reconcile(_ context.Context, key string) (controller.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, key)
	return controller.Result{}, nil
}

func (l *log) take() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = nil
	return keys
}

func TestAnswerDecidesNextAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		status   int
		after    string
		attempts []time.Duration // of the first hour
	}{
		"it succeeds":                    {http.StatusOK, "", []time.Duration{0}},
		"it asks for time":               {http.StatusTooManyRequests, "1800", []time.Duration{0, 30 * time.Minute}},
		"it asks for time while down":    {http.StatusServiceUnavailable, "1800", []time.Duration{0, 30 * time.Minute}},
		"it refuses what the site wants": {http.StatusBadRequest, "", []time.Duration{0}},
	} {
		looptest.Bubble(t, name, func(t *testing.T) {
			began := time.Now()
			var attempts []time.Duration
			c, err := controller.New("sites", func(context.Context, string) (controller.Result, error) {
				attempts = append(attempts, time.Since(began))
				resp := &http.Response{StatusCode: test.status, Status: http.StatusText(test.status), Header: http.Header{"Retry-After": {test.after}}}
				return controller.Result{}, check(resp)
			}, controller.Config[string]{})
			require.NoError(t, err)
			looptest.Start(t, c.Run)
			c.Add("berlin")
			time.Sleep(time.Hour - time.Minute)
			synctest.Wait()
			assert.Equal(t, test.attempts, attempts)
			assert.Equal(t, test.status == http.StatusBadRequest, len(c.Parked()) == 1)
		})
	}
}

func TestTenantHasTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenants := map[string]string{"berlin": "a", "bonn": "a", "bremen": "a", "rome": "b"}
		end := make(chan struct{})
		var log log
		c, err := controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
			defer func() { <-end }()
			return log.reconcile(ctx, key)
		}, fair(func(site string) string { return tenants[site] }))
		require.NoError(t, err)
		for _, site := range []string{"berlin", "bonn", "bremen", "rome"} {
			c.Add(site)
		}
		looptest.Start(t, c.Run)
		assert.ElementsMatch(t, []string{"berlin", "bonn", "rome"}, log.take())
		close(end)
		assert.Equal(t, []string{"bremen"}, log.take())
	})
}

func TestTwoControllersShareAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cached := world(t, Site{Name: "berlin"})
		var servers, certificates log
		m, err := both(cached, servers.reconcile, certificates.reconcile)
		require.NoError(t, err)
		looptest.Start(t, m.Run)
		assert.Equal(t, []string{"berlin"}, servers.take())
		assert.Equal(t, []string{"berlin"}, certificates.take())
	})
}

func TestOwnWritesAddNoKeyAndBackfillAddsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, cached := world(t, Site{Name: "berlin"}, Site{Name: "rome"})
		var log log
		c, err := controller.New("sites", log.reconcile, controller.Config[string]{}, intended(cached))
		require.NoError(t, err)
		m, err := manager.New(manager.Config{}, c)
		require.NoError(t, err)
		looptest.Start(t, m.Run)
		log.take()
		source.Put(Site{Name: "berlin", Running: 3})
		assert.Empty(t, log.take())
		source.Put(Site{Name: "berlin", Running: 3, Servers: 3})
		assert.Equal(t, []string{"berlin"}, log.take())

		c.SetWorkers(1)
		err = hold(c, func() error {
			backfill(c, cached)
			source.Put(Site{Name: "berlin", Running: 3, Servers: 4})
			assert.Empty(t, log.take(), "it is paused")
			return errors.New("the repair failed")
		})
		require.EqualError(t, err, "the repair failed")
		assert.Equal(t, []string{"berlin", "rome"}, log.take(), "the change of a user first")
	})
}

// cloud is a Cloud in memory.
type cloud map[string]int

func (c cloud) Servers(_ context.Context, site string) (int, error) { return c[site], nil }

func (c cloud) Start(_ context.Context, site string, n int) error {
	c[site] += n
	return nil
}

func (c cloud) Stop(_ context.Context, site string, n int) error {
	c[site] -= n
	return nil
}

func (c cloud) Rename(_ context.Context, from, to string) error {
	c[to] += c[from]
	delete(c, from)
	return nil
}

func TestDryRunChangesNothing(t *testing.T) {
	c := cloud{"berlin": 1, "rome": 5}
	var said []string
	d := dryRun{c, func(s string) { said = append(said, s) }}
	require.NoError(t, scale(t.Context(), d, "berlin", 3))
	require.NoError(t, scale(t.Context(), d, "rome", 2))
	require.NoError(t, adopt(t.Context(), d, "rome", "it/rome"))
	assert.Equal(t, []string{"berlin: would start 2", "rome: would stop 3", "rome: would become it/rome"}, said)
	assert.Equal(t, cloud{"berlin": 1, "rome": 5}, c)
}

func TestOldKeyIsAdoptedOnce(t *testing.T) {
	c := cloud{"rome": 5}
	for range 2 {
		require.NoError(t, adopt(t.Context(), c, "rome", "it/rome"))
		require.NoError(t, scale(t.Context(), c, "it/rome", 5))
		assert.Equal(t, cloud{"it/rome": 5}, c)
	}
}

func TestDeletionWaitsForCleanup(t *testing.T) {
	sites, err := store.Open[Site](store.NewMemory(store.MemoryConfig{}), "Site", store.Config[Site]{})
	require.NoError(t, err)
	_, err = sites.Create(t.Context(), store.Object[Site]{Key: "berlin", Value: Site{Servers: 3}})
	require.NoError(t, err)
	c := cloud{}
	reconcile := func() {
		_, _, err := cleaned(c).Reconcile(t.Context(), sites, "berlin")
		require.NoError(t, err)
	}
	reconcile()
	assert.Equal(t, cloud{"berlin": 3}, c)
	_, err = sites.Delete(t.Context(), "berlin")
	require.NoError(t, err)
	_, err = sites.Get(t.Context(), "berlin")
	require.NoError(t, err, "it is still there")
	reconcile()
	assert.Equal(t, cloud{"berlin": 0}, c)
	_, err = sites.Get(t.Context(), "berlin")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestOnceReconcilesWhatIsDueAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cached := world(t, Site{Name: "berlin"}, Site{Name: "rome"})
		var log log
		c, err := controller.New("sites", log.reconcile, controller.Config[string]{}, controller.For(cached))
		require.NoError(t, err)
		m, err := manager.New(manager.Config{}, c)
		require.NoError(t, err)
		require.NoError(t, once(t.Context(), m, c))
		assert.ElementsMatch(t, []string{"berlin", "rome"}, log.take())
	})
}

func TestOnceReturnsWhyManagerEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := fmt.Errorf("no disk")
		c, err := controller.New("sites", (&log{}).reconcile, controller.Config[string]{}, intended(func() *informer.Informer[string, Site] {
			_, cached := world(t)
			return cached
		}()))
		require.NoError(t, err)
		m, err := manager.New(manager.Config{}, c, manager.At(manager.Outer, manager.Func("disk", func(context.Context) error { return broken })))
		require.NoError(t, err)
		require.ErrorIs(t, once(t.Context(), m, c), broken)
	})
}

func TestPageHasProbes(t *testing.T) {
	m, err := manager.New(manager.Config{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	part, err := page(m, l)
	require.NoError(t, err)
	require.NoError(t, m.Add(part))
	stop := looptest.Start(t, m.Run)
	for _, probe := range []string{"healthz", "readyz"} {
		assert.EventuallyWithT(t, func(t *assert.CollectT) {
			resp, err := http.Get("http://" + l.Addr().String() + "/" + probe)
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, http.StatusOK, resp.StatusCode)
		}, 10*time.Second, 10*time.Millisecond)
	}
	require.NoError(t, stop.Stop())
}
