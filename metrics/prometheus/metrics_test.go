package prometheus_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// everything is a registry with at least one series of each metric.
func everything(t *testing.T) *prometheus.Registry {
	db := store.NewMemory(store.MemoryConfig{})
	cached := must(informer.New(newStore(db, "Site"), store.Key, informer.Config{Name: "sites", Logger: quiet}))
	steps := must(cached.Steps(t.Context()))
	t.Cleanup(steps.Stop)
	c := must(controller.New("sites", func(ctx context.Context, _ string) (controller.Result, error) {
		_, err := newStore(db, "Site").Create(ctx, store.Object[site]{Key: "written"})
		return controller.Result{}, err
	}, controller.Config[string]{Logger: quiet}, controller.For(cached)))
	disconnect := must(c.Connect(t.Context()))
	t.Cleanup(disconnect)
	steps.Read(t.Context())
	steps.Apply()
	for _, h := range steps.Handlers() {
		for steps.Deliver(h) {
		}
	}
	c.Add("a")
	report, ok := c.Step(t.Context(), "a")
	require.True(t, ok)
	require.NoError(t, report.Err)
	lease := leaderelect.Config{Store: memlease.New(), Key: "ops", Logger: quiet}
	elector := lease
	elector.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil }
	e := must(leaderelect.New(elector))
	stop := start(t, e.Run)
	t.Cleanup(stop)
	for !e.IsLeader() {
		time.Sleep(time.Millisecond)
	}
	slots := must(shard.New(shard.Config{Lease: lease, OnAcquired: func(context.Context, int) error { return nil }}))

	m := must(manager.New(manager.Config{Logger: quiet}, c))
	reg := prometheus.NewRegistry()
	x := must(setpointprom.New(reg, m))
	require.NoError(t, x.Add("ops", e))
	require.NoError(t, x.Add("slots", slots))
	require.NoError(t, x.Add("events", must(events.NewRecorder(events.Config{}))))
	require.NoError(t, x.Add("", newGates()))
	return reg
}

// TestDocumentationListsAllMetrics compares the table of the package documentation with a scrape.
func TestDocumentationListsAllMetrics(t *testing.T) {
	got := map[string]string{}
	for _, f := range must(everything(t).Gather()) {
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		kind := strings.ToLower(f.GetType().String())
		got[f.GetName()] = kind + " " + strings.Join(names, " ")
		assert.NotEmpty(t, f.GetHelp(), f.GetName())
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile("doc.go")))) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !slices.Contains([]string{"gauge", "counter", "histogram"}, fields[2]) {
			continue
		}
		listed[fields[1]] = fields[2] + " " + strings.ReplaceAll(fields[3], ",", " ")
	}
	assert.Equal(t, listed, got)
}

// TestNamesAndBucketsMatchKubernetes has the facts of k8s.io/component-base v0.37.2 (metrics/prometheus/workqueue, which goes
// to 10 s) and sigs.k8s.io/controller-runtime v0.25.2 (pkg/internal/metrics, which adds the label controller and goes to 1000 s;
// pkg/internal/controller/metrics; pkg/metrics/leaderelection.go).
func TestNamesAndBucketsMatchKubernetes(t *testing.T) {
	all := map[string]*dto.MetricFamily{}
	for _, f := range must(everything(t).Gather()) {
		all[f.GetName()] = f
	}
	for _, want := range []struct {
		name   string
		kind   dto.MetricType
		labels string
		bounds []float64
	}{
		{"workqueue_depth", dto.MetricType_GAUGE, "controller name priority", nil},
		{"workqueue_adds_total", dto.MetricType_COUNTER, "controller name", nil},
		{"workqueue_queue_duration_seconds", dto.MetricType_HISTOGRAM, "controller name", prometheus.ExponentialBuckets(10e-9, 10, 12)},
		{"workqueue_work_duration_seconds", dto.MetricType_HISTOGRAM, "controller name", prometheus.ExponentialBuckets(10e-9, 10, 12)},
		{"workqueue_unfinished_work_seconds", dto.MetricType_GAUGE, "controller name", nil},
		{"workqueue_longest_running_processor_seconds", dto.MetricType_GAUGE, "controller name", nil},
		{"workqueue_retries_total", dto.MetricType_COUNTER, "controller name", nil},
		{"controller_runtime_reconcile_total", dto.MetricType_COUNTER, "controller result", nil},
		{"controller_runtime_reconcile_errors_total", dto.MetricType_COUNTER, "controller", nil},
		{"controller_runtime_terminal_reconcile_errors_total", dto.MetricType_COUNTER, "controller", nil},
		{"controller_runtime_reconcile_panics_total", dto.MetricType_COUNTER, "controller", nil},
		{"controller_runtime_reconcile_time_seconds", dto.MetricType_HISTOGRAM, "controller", []float64{
			0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
			1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
		}},
		{"controller_runtime_active_workers", dto.MetricType_GAUGE, "controller", nil},
		{"controller_runtime_max_concurrent_reconciles", dto.MetricType_GAUGE, "controller", nil},
		{"leader_election_master_status", dto.MetricType_GAUGE, "name", nil},
		{"setpoint_feature_enabled", dto.MetricType_GAUGE, "name stage", nil}, // kubernetes_feature_enabled of metrics/prometheus/feature
	} {
		f := all[want.name]
		if !assert.NotNil(t, f, want.name) {
			continue
		}
		assert.Equal(t, want.kind, f.GetType(), want.name)
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		assert.Equal(t, want.labels, strings.Join(labels, " "), want.name)
		var bounds []float64
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			bounds = append(bounds, b.GetUpperBound())
		}
		assert.InDeltaSlice(t, want.bounds, bounds, 1e-12, want.name)
	}
	results := only(lines(t, everything(t)), "controller_runtime_reconcile_total")
	for _, result := range []string{"error", "requeue", "requeue_after", "success"} {
		assert.Contains(t, strings.Join(results, "\n"), fmt.Sprintf("result=%q", result))
	}
}

// TestDocumentedAlertsUseExistingMetrics reads docs/metrics.md. Prometheus reads them in the test of examples/served.
func TestDocumentedAlertsUseExistingMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, f := range must(everything(t).Gather()) {
		known[f.GetName()] = true
	}
	alerts := 0
	names := regexp.MustCompile(`\b(workqueue|controller_runtime|leader_election|setpoint)_\w+|\bsetpoint_slots\b`)
	for line := range strings.Lines(string(must(os.ReadFile("../../docs/metrics.md")))) {
		query, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: ")
		if !ok {
			continue
		}
		alerts++
		found := names.FindAllString(query, -1)
		assert.NotEmpty(t, found, query)
		for _, name := range found {
			assert.True(t, known[name], name)
		}
	}
	assert.Greater(t, alerts, 10)
}

func TestNamesFollowConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t))
	require.NoError(t, err)
	for _, p := range problems {
		assert.Fail(t, p.Metric+": "+p.Text)
	}
}

func TestManagerIsRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, _ := newManager("sites")
	x := must(setpointprom.New(reg, m))
	_, err := setpointprom.New(reg, m)
	require.ErrorIs(t, err, setpointprom.ErrExists)
	require.EqualError(t, err, "prometheus: new: the manager: it is registered already")
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 1)

	must(setpointprom.New(prometheus.NewRegistry(), m)) // in another registry
	x.Unregister()
	x.Unregister()
	assert.Empty(t, lines(t, reg))
	must(setpointprom.New(reg, m))
	assert.NotEmpty(t, lines(t, reg))
}

func TestTwoManagersShareRegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, of := newManager("sites")
	b, ofB := newManager("sites")
	other, _ := newManager("servers")
	x := must(setpointprom.New(reg, a))
	y := must(setpointprom.New(reg, b))
	must(setpointprom.New(reg, other))
	of.Add("one")
	ofB.Add("two")
	ofB.Add("three")
	assert.Equal(t, []string{
		`workqueue_depth{controller="servers",name="servers",priority="0"} 0`, `workqueue_depth{controller="sites",name="sites",priority="0"} 3`,
	}, only(lines(t, reg), "workqueue_depth"), "those of one name are added up")
	x.Unregister()
	assert.Contains(t, lines(t, reg), `workqueue_depth{controller="sites",name="sites",priority="0"} 2`)
	y.Unregister()
	assert.Equal(t, []string{`workqueue_depth{controller="servers",name="servers",priority="0"} 0`}, only(lines(t, reg), "workqueue_depth"))

	reg = prometheus.NewRegistry()
	for name, m := range map[string]*manager.Manager{"a": a, "b": b} {
		must(setpointprom.New(prometheus.WrapRegistererWith(prometheus.Labels{"manager": name}, reg), m))
	}
	assert.Equal(t, []string{
		`workqueue_depth{controller="sites",manager="a",name="sites",priority="0"} 1`, `workqueue_depth{controller="sites",manager="b",name="sites",priority="0"} 2`,
	}, only(lines(t, reg), "workqueue_depth"), "labels keep them apart")
	_, err := setpointprom.New(prometheus.WrapRegistererWith(prometheus.Labels{"manager": "a"}, reg), a)
	require.ErrorIs(t, err, setpointprom.ErrExists)
}

// A gauge whose series cannot be added up tells the worst of the parts with one name.
func TestWorstOfPartsWithSameNameIsExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		x := must(setpointprom.New(reg, nil))
		db := store.NewMemory(store.MemoryConfig{})
		sites := newStore(db, "Site")
		lead := func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil }
		var stops []func()
		for i, duration := range []time.Duration{time.Minute, 15 * time.Second, time.Minute} {
			inf := must(informer.New(sites, store.Key, informer.Config{Name: "sites", Logger: quiet}))
			q := must(workqueue.New(workqueue.Config[int]{Timestamps: true}))
			e := must(leaderelect.New(leaderelect.Config{Store: memlease.New(), Key: "ops", LeaseDuration: duration, Logger: quiet, OnStartedLeading: lead}))
			require.NoError(t, x.Add("sites", inf))
			require.NoError(t, x.Add("orders", q))
			require.NoError(t, x.Add("ops", e))
			q.Add(1)
			q.Add(2)
			q.TryTake()
			if i < 2 { // the third informer has received nothing yet
				must(sites.Create(t.Context(), store.Object[site]{Key: fmt.Sprint(i)}))
				stops = append(stops, start(t, inf.Run))
			}
			stops = append(stops, start(t, e.Run))
			time.Sleep(100 * time.Millisecond)
		}
		got := lines(t, reg)
		assert.Equal(t, []string{
			`leader_election_master_status{name="ops"} 1`,
			`setpoint_informer_silent_seconds{informer="sites"} 0.2`,                             // since the second object
			`setpoint_informer_version{informer="sites"} 0`,                                      // of the third
			`setpoint_informer_watching{informer="sites"} 0`,                                     // the third does not
			`setpoint_lease_left_seconds{name="ops"} 9.8`,                                        // of the second: two thirds of 15 s, 0.2 s ago
			`setpoint_workqueue_oldest_ready_seconds{controller="orders",name="orders"} 0.3`,     // of the first
			`workqueue_longest_running_processor_seconds{controller="orders",name="orders"} 0.3`, // of the first
		}, only(got, "leader_election", "setpoint_informer_silent", "setpoint_informer_version", "setpoint_informer_watching",
			"setpoint_lease_left", "setpoint_workqueue_oldest", "workqueue_longest"))
		for _, stop := range stops {
			stop()
		}
	})
}

func TestDelayOfSourceIsExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		x := must(setpointprom.New(reg, nil))
		source := &delayedSource{Store: newStore(store.NewMemory(store.MemoryConfig{}), "Site")}
		require.NoError(t, x.Add("sites", must(informer.New(source, store.Key, informer.Config{Name: "sites", Logger: quiet}))))
		assert.Equal(t, []string{`setpoint_informer_delayed_seconds{informer="sites"} 0`}, only(lines(t, reg), "setpoint_informer_delayed"))
		source.since = time.Now()
		time.Sleep(3 * time.Second)
		assert.Equal(t, []string{`setpoint_informer_delayed_seconds{informer="sites"} 3`}, only(lines(t, reg), "setpoint_informer_delayed"))
	})
}

type delayedSource struct {
	store.Store[site]
	since time.Time
}

func (d *delayedSource) DelayedSince() time.Time { return d.since }

func TestDuplicateRegistrationFails(t *testing.T) {
	reg := prometheus.NewRegistry()
	require.NoError(t, reg.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "another"})))
	m, _ := newManager("sites")
	_, err := setpointprom.New(reg, m)
	assert.ErrorContains(t, err, "workqueue_depth")
	assert.Panics(t, func() { _, _ = setpointprom.New(nil, m) })
}

func TestPartsAreAddedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newManager("before")
		reg := prometheus.NewRegistry()
		must(setpointprom.New(reg, m))
		db := store.NewMemory(store.MemoryConfig{})
		cached := must(informer.New(newStore(db, "Site"), store.Key, informer.Config{Name: "cached", Logger: quiet}))
		c := must(controller.New("after", noop[string], controller.Config[string]{Logger: quiet}, controller.For(cached)))
		c.Add("early")
		stop := start(t, m.Run)
		require.NoError(t, m.Add(c))
		synctest.Wait()
		got := lines(t, reg)
		assert.Contains(t, got, `workqueue_adds_total{controller="before",name="before"} 0`)
		assert.Contains(t, got, `controller_runtime_reconcile_total{controller="after",result="success"} 1`, "including its work before the first scrape")
		assert.Contains(t, got, `setpoint_informer_lists_total{informer="cached"} 1`)
		require.NoError(t, m.Remove(t.Context(), "after"))
		for _, line := range lines(t, reg) {
			assert.NotContains(t, line, `"after"`)
			assert.NotContains(t, line, "cached")
		}
		stop()
	})
}

func TestAddAcceptsPartsWithStats(t *testing.T) {
	reg := prometheus.NewRegistry()
	x := must(setpointprom.New(reg, nil))
	db := store.NewMemory(store.MemoryConfig{})
	sites := newStore(db, "Site")
	cached := must(informer.New(sites, store.Key, informer.Config{Name: "cached"}))
	c := must(controller.New("sites", noop[string], controller.Config[string]{}, controller.For(cached)))
	require.NoError(t, x.Add("mine", c))
	require.NoError(t, x.Add("again", cached), "it is registered as an informer, and counts once")
	require.NoError(t, x.Add("sites", sites))
	require.ErrorIs(t, x.Add("other", c), setpointprom.ErrExists)
	require.EqualError(t, x.Add("clock", time.Now()), `prometheus: add "clock": time.Time has no numbers that this package knows`)
	require.Error(t, x.Add("nothing", nil))
	got := lines(t, reg)
	assert.Contains(t, got, `workqueue_depth{controller="mine",name="mine",priority="0"} 0`)
	assert.Equal(t, []string{`setpoint_informer_objects{informer="cached"} 0`}, only(got, "setpoint_informer_objects"))
	assert.Len(t, only(got, "setpoint_store_fenced"), 1)
}

func TestHistogramsWithSameNameAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		x := must(setpointprom.New(reg, nil))
		for range 2 {
			q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
			require.NoError(t, x.Add("orders", q))
			for _, waits := range []time.Duration{time.Second, time.Hour} { // an hour is above all bounds
				q.Add("a")
				time.Sleep(waits)
				item, _ := q.TryTake()
				item.Done()
			}
		}
		assert.Equal(t, []string{`workqueue_queue_duration_seconds{controller="orders",name="orders"} count 4 sum 7202 le 1: 2`},
			only(lines(t, reg), "workqueue_queue_duration_seconds"))
	})
}

func TestInvalidUTF8NamesDoNotFailScrape(t *testing.T) {
	reg := prometheus.NewRegistry()
	x := must(setpointprom.New(reg, nil))
	for i, name := range []string{"a\xff", "a\xfe", `quote " and \`, "", strings.Repeat("x", 1000)} {
		q := must(workqueue.New(workqueue.Config[int]{}))
		q.Add(i)
		require.NoError(t, x.Add(name, q))
	}
	assert.Contains(t, lines(t, reg), "workqueue_depth{controller=\"a\uFFFD\",name=\"a\uFFFD\",priority=\"0\"} 2")
}

// TestScrapeWhilePartsChange is for the race detector.
func TestScrapeWhilePartsChange(t *testing.T) {
	m, c := newManager("sites")
	reg := prometheus.NewRegistry()
	must(setpointprom.New(reg, m))
	stop := start(t, m.Run)
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for n := range 50 {
				switch i {
				case 0:
					c.Add(fmt.Sprint(n))
				case 1:
					extra := must(controller.New("extra", noop[string], controller.Config[string]{Logger: quiet}))
					extra.Add("a")
					assert.NoError(t, m.Add(extra))
					assert.NoError(t, m.Remove(context.Background(), "extra"))
				case 2:
					other, _ := newManager("sites")
					must(setpointprom.New(reg, other)).Unregister()
				default:
					_, err := reg.Gather()
					assert.NoError(t, err)
				}
			}
		})
	}
	working.Wait()
	stop()
}

func TestConcurrentRegisterAndUnregister(t *testing.T) {
	reg := prometheus.NewRegistry()
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for range 100 {
				m, _ := newManager(fmt.Sprint("m", i))
				must(setpointprom.New(reg, m)).Unregister()
			}
			m, _ := newManager(fmt.Sprint("m", i))
			must(setpointprom.New(reg, m))
		})
	}
	working.Wait()
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 4)
}

// meanwhile is a registry in which something happens between a registration and its answer.
type meanwhile struct {
	*prometheus.Registry
	happens func()
}

func (r meanwhile) Register(c prometheus.Collector) error {
	defer r.happens()
	return r.Registry.Register(c)
}

// The collector that a registration finds may lose its last member before the registration joins it.
func TestRegistrationSurvivesUnregistrationOfOthers(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, _ := newManager("a")
	b, _ := newManager("b")
	x := must(setpointprom.New(reg, a))
	must(setpointprom.New(meanwhile{reg, x.Unregister}, b))
	assert.Equal(t, []string{`workqueue_depth{controller="b",name="b",priority="0"} 0`}, only(lines(t, reg), "workqueue_depth"))
}

// TestCountersNeverDecrease reads the metrics of a controller whose reconciles request requeues. Its two counters of
// successes are differences of two others.
func TestCountersNeverDecrease(t *testing.T) {
	c := must(controller.New("sites", func(context.Context, int) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Nanosecond}, nil
	}, controller.Config[int]{Logger: quiet, Workers: 4}))
	m := must(manager.New(manager.Config{Logger: quiet}, c))
	reg := prometheus.NewRegistry()
	must(setpointprom.New(reg, m))
	stop := start(t, m.Run)
	for key := range 8 {
		c.Add(key)
	}
	last := map[string]float64{}
	for range 300 {
		for _, f := range must(reg.Gather()) {
			for _, metric := range f.GetMetric() {
				if metric.Counter == nil {
					continue
				}
				id := f.GetName() + labels(metric)
				assert.GreaterOrEqual(t, metric.Counter.GetValue(), last[id], id)
				last[id] = metric.Counter.GetValue()
			}
		}
	}
	assert.Positive(t, last[`controller_runtime_reconcile_total{controller="sites",result="requeue_after"}`])
	assert.Zero(t, last[`controller_runtime_reconcile_total{controller="sites",result="success"}`])
	stop()
}

// TestScrapeCostIsIndependentOfQueueLength compares 100,000 keys, in all states except in process, with one key.
func TestScrapeCostIsIndependentOfQueueLength(t *testing.T) {
	cost := func(keys int) float64 {
		c := must(controller.New("sites", noop[int], controller.Config[int]{Logger: quiet}))
		m := must(manager.New(manager.Config{Logger: quiet}, c))
		reg := prometheus.NewRegistry()
		x := must(setpointprom.New(reg, m))
		q := must(workqueue.New(workqueue.Config[int]{Timestamps: true}))
		require.NoError(t, x.Add("orders", q))
		for key := range keys {
			c.Add(key)
			if key%3 == 0 {
				q.Park(key, "")
			} else {
				q.AddAfter(key, time.Duration(key%3%2)*time.Hour)
			}
			c.PauseKey(-key)
		}
		defer q.ShutDown()
		return testing.AllocsPerRun(5, func() { must(reg.Gather()) })
	}
	one, many := cost(10), cost(100_000)
	assert.InDelta(t, one, many, math.Max(10, one/20))
}
