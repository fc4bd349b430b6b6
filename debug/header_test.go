package debug_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
)

// healthOf returns the health and the problems in the JSON of the overview.
func healthOf(t *testing.T, h *debug.Handler) (health string, problems []any) {
	t.Helper()
	v := readJSON(t, h, "")
	return at(v, "health"), v["problems"].([]any)
}

func TestStuckWorkerIsNoGreenReady(t *testing.T) {
	for _, tt := range []struct {
		name       string
		stuckAfter time.Duration
		health     string
		color      string
		problem    string
	}{
		{"without a limit", 0, "degraded", "warn", `queue "sites": a key has been in flight for 1 min 0 s`},
		{"with a limit", 30 * time.Second, "not ready", "bad", `check part "sites": controller: check "sites": `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c, m, h := plain(t, manager.Config{}, func(context.Context, string) (controller.Result, error) {
					<-release
					return controller.Result{}, nil
				}, controller.Config[string]{StuckAfter: tt.stuckAfter})
				running(t, m)
				c.Add("berlin")
				synctest.Wait()
				health, problems := healthOf(t, h)
				assert.Equal(t, "ready", health)
				assert.Empty(t, problems)
				assert.Contains(t, read(t, h, ""), `<span class="dot good"></span>Ready`)

				time.Sleep(time.Minute)
				health, problems = healthOf(t, h)
				assert.Equal(t, tt.health, health)
				require.Len(t, problems, 1, "each problem is said once")
				assert.Contains(t, problems[0], tt.problem)
				page := read(t, h, "")
				assert.Contains(t, page, `<span class="dot `+tt.color+`"></span>`)
				assert.Contains(t, page, `<section class="problems `+tt.color+`"`)
				assert.Contains(t, page, `<span class="`+tt.color+`">longest in flight 1 min 0 s</span>`)
				assert.NotContains(t, page, `class="dot good"`)
				assert.NotContains(t, page, `class="pill good"`, "nothing is green beside it")
				close(release)
				synctest.Wait()
				health, _ = healthOf(t, h)
				assert.Equal(t, "ready", health)
			})
		})
	}
}

func TestStuckWorkerOfAddedPartIsProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c, err := controller.New("alone", func(context.Context, string) (controller.Result, error) {
			<-release
			return controller.Result{}, nil
		}, controller.Config[string]{Logger: quiet, StuckAfter: time.Second})
		require.NoError(t, err)
		h, err := debug.New(nil, debug.Config{Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, h.Add("alone", c))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		c.Add("a")
		time.Sleep(2 * time.Second)
		health, problems := healthOf(t, h)
		assert.Equal(t, "not ready", health)
		assert.Len(t, problems, 1)
		close(release)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestCacheThatLacksRecordsIsProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := informer.New(lacking{}, func(site string) string { return site }, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		health, problems := healthOf(t, h)
		assert.Equal(t, "degraded", health)
		assert.Equal(t, []any{`informer "cached": the cache lacks the current state of 0 objects (unread) and 1 record (missing)`}, problems)
		page := read(t, h, "")
		assert.Contains(t, page, `<span class="dot warn"></span>Degraded`)
		assert.Contains(t, page, `<span class="pill warn">incomplete</span>`)
		assert.NotContains(t, page, `watching`)
		assert.Contains(t, read(t, h, "queue?name=sites"), "the cache lacks", "on each page")
	})
}

func TestAddressOfLeaderIsLinkIfItIsURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		lease := func(name string) *leaderelect.Config {
			return &leaderelect.Config{Store: leases, Key: "ops", Identity: name, Logger: quiet, Metadata: map[string]string{
				"page": "http://" + name + ":6060/debug/", "zone": "eu-1", "evil": "javascript://a/%0aalert(1)", "files": "ftp://a/", "host": name + ":6060",
			}}
		}
		_, a, ofA := plain(t, manager.Config{Election: lease("a")}, idle, controller.Config[string]{})
		_, b, ofB := plain(t, manager.Config{Election: lease("b")}, idle, controller.Config[string]{})
		running(t, a)
		running(t, b)
		const link = `<a href="http://a:6060/debug/" rel="noopener">http://a:6060/debug/</a>`
		for _, page := range []string{read(t, ofA, ""), read(t, ofB, ""), read(t, ofB, "key?queue=sites&key=berlin")} {
			assert.Contains(t, page, link)
			assert.NotContains(t, page, `href="javascript`)
			assert.NotContains(t, page, `href="ftp`)
			assert.NotContains(t, page, "ZgotmplZ")
			assert.NotContains(t, page, `href="a:6060`)
		}
		assert.Contains(t, read(t, ofB, ""), "zone eu-1")
		assert.NotContains(t, read(t, ofA, "key?queue=sites&key=berlin"), link, "this replica reconciles it")
	})
}

func TestAddressesOfReplicasWithSlotsAreLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		slots := func(name string) manager.Config {
			return manager.Config{Shards: &shard.Config{Slots: 4, Lease: leaderelect.Config{
				Store: leases, Key: "ops", Identity: name, Logger: quiet, Metadata: map[string]string{"page": "https://" + name + "/debug/"},
			}}}
		}
		_, a, _ := plain(t, slots("a"), idle, controller.Config[string]{})
		_, b, ofB := plain(t, slots("b"), idle, controller.Config[string]{})
		running(t, a)
		time.Sleep(time.Minute)
		running(t, b)
		time.Sleep(time.Minute)
		synctest.Wait()
		const link = `<a href="https://a/debug/" rel="noopener">https://a/debug/</a>`
		assert.Contains(t, read(t, ofB, ""), link)
		for _, key := range []string{"berlin", "oslo", "accra", "quito", "lima", "osaka"} {
			here := at(readJSON(t, ofB, "key?queue=sites&key="+key), "slot.here") == "true"
			assert.Equal(t, !here, strings.Contains(read(t, ofB, "key?queue=sites&key="+key), link), key)
			assert.NotContains(t, read(t, ofB, "key?queue=sites&key="+key), `href="https://b/`, "this page")
		}
	})
}

func TestFrozenPageIsNotLive(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		script := read(t, s.Page, "page.js")
		assert.Contains(t, script, `else if (busy()) say("frozen`, "the test in a browser sees it happen")
		assert.NotContains(t, script, `say("live", "good")`, "green is the color of the health")
	})
}

// behind is a source that is ahead of its watch, which reports nothing, as while a transaction of a database stays open. Or its watch fails.
type behind struct{ fails bool }

func (behind) List(context.Context) (informer.List[string], error) {
	return informer.List[string]{Items: []string{"berlin"}, Version: 1}, nil
}

func (s behind) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[string], error] {
	return func(yield func(informer.Event[string], error) bool) {
		if s.fails {
			yield(informer.Event[string]{}, errors.New("the database is down"))
			return
		}
		<-ctx.Done()
		yield(informer.Event[string]{}, context.Cause(ctx))
	}
}

func (behind) LatestVersion(context.Context) (informer.Version, error) { return 2, nil }

func TestLeaderThatWaitsForItsCachesIsProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := informer.New(behind{}, func(site string) string { return site }, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		lease := &leaderelect.Config{Store: memlease.New(), Key: "ops", Identity: "a", Logger: quiet}
		_, m, h := plain(t, manager.Config{Election: lease}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		time.Sleep(5 * time.Second)
		health, _ := healthOf(t, h)
		assert.Equal(t, "ready", health, "it may take a while")
		assert.Equal(t, "It has been ready for 5.0 s, and waits for a worker. Its controller has waited for 5.0 s until its caches show everything from "+
			"before this replica led. A transaction that stays open holds them up, or their sources do not answer.", why(t, h, "sites", "berlin"))
		time.Sleep(5 * time.Second)
		health, problems := healthOf(t, h)
		assert.Equal(t, "degraded", health)
		assert.Equal(t, []any{`controller "sites": it leads, and has waited for 10 s for its caches`}, problems)
	})
}

func TestSilentSourceAndLeaseStoreAreProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := informer.New(behind{fails: true}, func(site string) string { return site }, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		lease := &leaderelect.Config{Store: down{memlease.New()}, Key: "ops", Identity: "a", Logger: quiet}
		_, m, h := plain(t, manager.Config{Election: lease}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		time.Sleep(time.Second)
		health, problems := healthOf(t, h)
		assert.Equal(t, "degraded", health)
		require.Len(t, problems, 2)
		assert.Equal(t, `informer "cached": its source has not answered since: the database is down`, problems[0])
		assert.Contains(t, problems[1], `election "ops": the store of leases has not answered since: `)
	})
}

func TestDelayedSourceIsProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := delayedSource{behind{}, time.Now()}
		seen, err := informer.New(informer.Filter(source, func(string) bool { return true }), func(site string) string { return site },
			informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		time.Sleep(59 * time.Second)
		health, _ := healthOf(t, h)
		assert.Equal(t, "ready", health, "it may take a while")
		assert.NotContains(t, read(t, h, ""), "delayed for")
		time.Sleep(time.Second)
		health, problems := healthOf(t, h)
		assert.Equal(t, "degraded", health)
		assert.Equal(t, []any{`informer "cached": something, such as an open transaction, has kept changes from its cache for 1 min 0 s`}, problems)
		assert.Contains(t, read(t, h, ""), "delayed for 1 min 0 s")
	})
}

type delayedSource struct {
	informer.ListWatcher[string]
	since time.Time
}

func (d delayedSource) DelayedSince() time.Time { return d.since }

// down is a store of leases that does not answer.
type down struct{ leaderelect.LeaseStore }

func (down) Get(context.Context, string) (leaderelect.Entry, error) {
	return leaderelect.Entry{}, errors.New("the database is down")
}

// A follower could only pretend to retry a key.
func TestProcessThatDoesNotReconcileRefusesToRetry(t *testing.T) {
	c := controllerOf(t, "sites", controller.Config[string]{})
	h := pageOf(t, debug.Config{Actions: true}, c)
	c.Add("berlin")
	token := at(readJSON(t, h, ""), "token")
	for action, status := range map[string]int{
		"retry": http.StatusConflict, "retry-parked": http.StatusConflict, "resync": http.StatusConflict,
		"pause": http.StatusSeeOther, "resume": http.StatusSeeOther, "forget": http.StatusSeeOther,
	} {
		r := ask(h, http.MethodPost, "act?queue=sites&key=berlin", url.Values{"action": {action}, "token": {token}})
		assert.Equal(t, status, r.StatusCode, action)
	}
}
