package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
)

// A manager of controller-runtime serves the same page before and after its controller has got a queue of setpoint: the same metrics, help
// texts, types, labels, and buckets of workqueues, and the same counts.
func TestManagerServesTheSameMetricsWithQueue(t *testing.T) {
	metrics := must(setpointprom.New(ctrlmetrics.Registry, nil))
	defer metrics.Unregister()
	before := scrapeOf(t, "with-theirs", nil)
	after := scrapeOf(t, "with-ours", func(
		name string, limiter clientgo.TypedRateLimiter[string],
	) clientgo.TypedRateLimitingInterface[string] {
		q := NewQueue(name, limiter)
		assert.NoError(t, metrics.Add(name, q.(PriorityQueue[string]).Queue))
		return q
	})
	require.NotEmpty(t, before)
	assert.Equal(t, before, after)
	assert.Contains(t, after, `workqueue_depth{controller="it",name="it",priority="-100"} 2`)
	assert.Contains(t, after, `workqueue_depth{controller="it",name="it",priority="0"} 2`)
	assert.Contains(t, after, `workqueue_adds_total{controller="it",name="it"} 5`)
}

// scrapeOf runs a manager with one controller, whose only worker is stuck while keys wait, and returns what its page says of the queue. Times vary, and are left out.
func scrapeOf(t *testing.T, name string, queue newQueueFunc[string]) []string {
	name += fmt.Sprint(time.Now().UnixNano()) // controller-runtime keeps the counts of a name until the process ends
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"}, // the handler of that server is called below
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return &informertest.FakeInformers{}, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return nil, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	require.NoError(t, err)
	stuck, free := make(chan struct{}), make(chan struct{})
	ctrl, err := controller.NewTyped(name, mgr, controller.TypedOptions[string]{
		NewQueue: queue,
		Reconciler: reconcile.TypedFunc[string](func(ctx context.Context, key string) (reconcile.Result, error) {
			if key == "stuck" {
				close(stuck)
				<-free
			}
			return reconcile.Result{}, nil
		}),
	})
	require.NoError(t, err)
	added := make(chan struct{})
	require.NoError(t, ctrl.Watch(source.TypedFunc[string](func(_ context.Context, q clientgo.TypedRateLimitingInterface[string]) error {
		pq := q.(priorityqueue.PriorityQueue[string])
		pq.Add("stuck")
		go func() { // ends when the worker is stuck
			<-stuck
			pq.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, "a", "b", "c")
			pq.AddWithOpts(priorityqueue.AddOpts{}, "c", "stuck")
			pq.AddAfter("later", time.Hour)
			pq.Len() // makes the priority queue do its deferred work
			close(added)
		}()
		return nil
	})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }() // ends with ctx; waited for below
	<-added
	page := httptest.NewRecorder()
	promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	close(free)
	cancel()
	require.NoError(t, <-ended)

	timed := regexp.MustCompile(`(_seconds_bucket\{.*le="[^"]*"\}|_seconds_sum\{.*\}|_seconds\{.*\}) .*`)
	var lines []string
	for line := range strings.Lines(page.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		head := strings.HasPrefix(line, "# ") && strings.Contains(line, " workqueue_")
		if head || strings.HasPrefix(line, "workqueue_") && strings.Contains(line, `name="`+name+`"`) {
			lines = append(lines, timed.ReplaceAllString(strings.ReplaceAll(line, `"`+name+`"`, `"it"`), "$1"))
		}
	}
	slices.Sort(lines)
	return lines
}
