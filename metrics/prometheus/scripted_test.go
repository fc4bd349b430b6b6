package prometheus_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

var update = flag.Bool("update", false, "write the files of testdata; then look at each difference")

// checkGolden compares the lines with a file of testdata. Lines that begin with # say why the values are right.
func checkGolden(t *testing.T, file string, got []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if *update {
		text = []byte(strings.Join(got, "\n") + "\n")
		err = os.WriteFile(file, text, 0o644)
	}
	require.NoError(t, err)
	var want []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	assert.Equal(t, want, got)
}

// TestEveryMetricHasItsValue runs a leader through all that can happen to it. What it does is in this function, in order, and all
// time is simulated, so each value follows from it.
func TestEveryMetricHasItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites, servers := newStore(db, "Site"), newStore(db, "Server")
		cached := must(informer.New(sites, store.Key, informer.Config{Name: "sites", Logger: quiet}))
		seen := must(informer.New(store.Selected(servers, store.Selector{}), store.Key, informer.Config{Name: "servers", Logger: quiet}))
		children := expectations.NewCounted(expectations.Config[string]{Name: "children", TTL: 24 * time.Hour})
		var seenKeys sync.Map
		c := must(controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
			_, again := seenKeys.LoadOrStore(key, true)
			switch {
			case again || key == "works":
			case key == "later":
				return controller.Result{RequeueAfter: time.Second}, nil
			case key == "notyet":
				return controller.Result{}, retry.NotYet(errors.New("not yet"), time.Second)
			case key == "fails":
				return controller.Result{}, errors.New("failed")
			case key == "panics":
				panic("on purpose")
			case key == "parked":
				return controller.Result{}, retry.Permanent(errors.New("permanent"))
			case key == "slow":
				time.Sleep(400 * time.Millisecond)
			case key == "fenced":
				_, err := servers.Create(store.WithFence(ctx, store.Fence{Lease: "other", Term: 1}), store.Object[site]{Key: key})
				return controller.Result{}, err
			case key == "writes":
				_, err := servers.Create(store.Unfenced(ctx), store.Object[site]{Key: key})
				return controller.Result{}, err
			case key == "hangs", key == "hangs too":
				time.Sleep(time.Hour)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{
			Workers: 2, Logger: quiet, Reads: []controller.Informer{seen}, Expectations: []controller.Expectations[string]{children},
			Background: 1,
		}, controller.For(cached)))
		recorder := must(events.NewRecorder(events.Config{
			Burst: 2, QueueSize: 1, Logger: quiet, Write: func(context.Context, events.Event) error { time.Sleep(time.Minute); return nil },
		}))
		m := must(manager.New(manager.Config{Logger: quiet, Election: &leaderelect.Config{
			Store: memlease.New(), Key: "ops", Rand: func() float64 { return 0.5 },
		}}, c, manager.At(manager.Outer, recorder)))
		reg := prometheus.NewRegistry()
		metrics := must(setpointprom.New(reg, m))
		q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
		require.NoError(t, metrics.Add("orders", q))

		stop := start(t, m.Run)
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			must(sites.Create(t.Context(), store.Object[site]{Key: key}))
		}
		must(servers.Create(store.WithFence(t.Context(), store.Fence{Lease: "other", Term: 2}), store.Object[site]{Key: "newer"}))
		synctest.Wait() // two reconciles
		for _, key := range []string{"works", "later", "notyet", "fails", "panics", "parked", "slow", "fenced", "writes"} {
			c.Add(key)
			time.Sleep(2 * time.Second) // later, notyet, fails, and panics come again
		}
		c.PauseKey("a")
		c.Add("a")
		children.ExpectCreations("b", 1)
		c.Add("b")
		synctest.Wait()
		c.Add("hangs")
		time.Sleep(3 * time.Second)
		c.Add("hangs too") // and no worker is free
		synctest.Wait()
		c.Add("waits")
		time.Sleep(4 * time.Second)
		c.Add("waits too")
		c.Add("hangs") // again when it is done

		for range 4 {
			recorder.Normal(store.Ref{Kind: "Site", Key: "a"}, "Grew", "by one")
			synctest.Wait() // the sink has the first one
		}
		q.Add("order")
		q.AddAfter("other", time.Hour)
		time.Sleep(2 * time.Second) // 27 s after the start, between two renewals

		got := lines(t, reg)
		checkGolden(t, "testdata/leader.txt", got)
		for _, series := range []string{ // those that matter most, and why
			`workqueue_depth{controller="sites",name="sites",priority="0"} 3`,                          // waits, waits too, hangs again
			`setpoint_workqueue_oldest_ready_seconds{controller="sites",name="sites"} 6`,               // waits
			`workqueue_longest_running_processor_seconds{controller="sites",name="sites"} 9`,           // hangs
			`workqueue_unfinished_work_seconds{controller="sites",name="sites"} 15`,                    // and hangs too, for 6 s
			`setpoint_controller_held_keys{by="pause",controller="sites"} 1`,                           // a
			`setpoint_controller_held_keys{by="expectations children",controller="sites"} 1`,           // b
			`setpoint_controller_oldest_held_seconds{by="expectations children",controller="sites"} 9`, // b
			`controller_runtime_reconcile_total{controller="sites",result="error"} 3`,                  // fails, panics, parked
			`controller_runtime_reconcile_total{controller="sites",result="requeue"} 1`,                // fenced
			`controller_runtime_reconcile_total{controller="sites",result="requeue_after"} 2`,          // later, notyet
			`controller_runtime_reconcile_total{controller="sites",result="success"} 9`,                // a, b, works, slow, writes, and four that came again
			`controller_runtime_reconcile_panics_total{controller="sites"} 1`,
			`controller_runtime_terminal_reconcile_errors_total{controller="sites"} 1`,
			`setpoint_store_fenced_writes_total{backend="store.Memory",kind="Server"} 1`,
			`setpoint_controller_fenced_reconciles_total{controller="sites"} 1`,
			`leader_election_master_status{name="ops"} 1`,
			`setpoint_workqueue_oldest_ready_seconds{controller="orders",name="orders"} 2`,
		} {
			assert.Contains(t, got, series)
		}
		time.Sleep(3 * time.Hour) // so that nothing hangs
		stop()
		assert.Contains(t, lines(t, reg), `setpoint_manager_state{state="ended"} 1`)
	})
}

func TestSlotMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := must(controller.New("sites", noop[string], controller.Config[string]{Logger: quiet}))
		m := must(manager.New(manager.Config{Logger: quiet, Shards: &shard.Config{
			Slots: 8, Lease: leaderelect.Config{Store: memlease.New(), Key: "ops", Rand: func() float64 { return 0.5 }},
		}}, c))
		reg := prometheus.NewRegistry()
		must(setpointprom.New(reg, m))
		assert.Empty(t, only(lines(t, reg), "setpoint_lease_left_seconds"), "none is owned")
		stop := start(t, m.Run)
		time.Sleep(61 * time.Second) // between two renewals
		got := lines(t, reg)
		checkGolden(t, "testdata/slots.txt", only(got, "setpoint_slots", "setpoint_lease", "leader_election"))
		stop()
	})
}

func TestStandbyIsNotMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		election := &leaderelect.Config{Store: leases, Key: "ops", Logger: quiet}
		m := must(manager.New(manager.Config{Logger: quiet, Election: election}))
		other := must(manager.New(manager.Config{Logger: quiet, Election: election}))
		reg := prometheus.NewRegistry()
		must(setpointprom.New(reg, other))
		stop := start(t, m.Run)
		synctest.Wait()
		stopOther := start(t, other.Run)
		time.Sleep(time.Minute)
		got := lines(t, reg)
		assert.Contains(t, got, `leader_election_master_status{name="ops"} 0`)
		assert.Empty(t, only(got, "setpoint_lease_left_seconds"))
		assert.Contains(t, got, `setpoint_manager_state{state="standby"} 1`)

		leases.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errors.New("outage") }})
		time.Sleep(time.Minute)
		assert.Contains(t, lines(t, reg), `setpoint_lease_store_failing{name="ops"} 1`)
		leases.Inject(memlease.Faults{})
		time.Sleep(time.Minute)
		stopOther()
		stop()
	})
}

// The alerts must not fire on the parked and waiting keys of a former leader.
func TestControllerThatDoesNotRunWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := must(controller.New("sites", func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, retry.Permanent(errors.New("no"))
		}, controller.Config[string]{Logger: quiet}))
		reg := prometheus.NewRegistry()
		x := must(setpointprom.New(reg, nil))
		require.NoError(t, x.Add("sites", c))
		stop := start(t, c.Run)
		c.Add("berlin")
		synctest.Wait()
		assert.Contains(t, lines(t, reg), `setpoint_workqueue_parked_keys{controller="sites",name="sites"} 1`)
		stop()
		c.Add("osaka")
		time.Sleep(time.Minute)
		got := lines(t, reg)
		assert.Contains(t, got, `setpoint_workqueue_parked_keys{controller="sites",name="sites"} 0`)
		assert.Contains(t, got, `setpoint_workqueue_oldest_ready_seconds{controller="sites",name="sites"} 0`)
		assert.Contains(t, got, `workqueue_depth{controller="sites",name="sites",priority="0"} 1`)
	})
}
