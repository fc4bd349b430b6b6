package prometheus_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/workqueue"
)

// foreign is a registry with the depth of another queue, as controller-runtime registers it, and with another metric.
func foreign(help string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: help}, []string{"name", "controller", "priority"})
	depth.WithLabelValues("pods", "pods", "-100").Set(5)
	reg.MustRegister(depth, prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "Another."}))
	return reg
}

const theirHelp = "Current depth of workqueue by workqueue and priority"

func TestMetricsJoinThoseOfKubernetes(t *testing.T) {
	reg := foreign(theirHelp)
	x, err := setpointprom.New(reg, nil)
	require.NoError(t, err)
	q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
	q.AddWith("a", workqueue.AddOptions{Priority: 7})
	q.Add("b")
	require.NoError(t, x.Add("sites", q))
	assert.Equal(t, []string{
		`workqueue_depth{controller="pods",name="pods",priority="-100"} 5`,
		`workqueue_depth{controller="sites",name="sites",priority="0"} 1`,
		`workqueue_depth{controller="sites",name="sites",priority="7"} 1`,
	}, only(lines(t, reg), "workqueue_depth"))
	assert.Equal(t, []string{`workqueue_adds_total{controller="sites",name="sites"} 2`}, only(lines(t, reg), "workqueue_adds_total"))
	assert.Equal(t, []string{`setpoint_workqueue_paused{controller="sites",name="sites"} 0`}, only(lines(t, reg), "setpoint_workqueue_paused"))

	again := must(setpointprom.New(reg, nil))
	require.ErrorIs(t, again.Add("sites", q), nil, "several may share the registry")
	require.NoError(t, again.Add("more", must(workqueue.New(workqueue.Config[string]{}))))
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 4, "a queue that was added twice counts once")
	x.Unregister()
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 4)
	again.Unregister()
	again.Unregister()
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 1)
	require.NoError(t, must(setpointprom.New(reg, nil)).Add("sites", q))
	assert.Len(t, only(lines(t, reg), "workqueue_depth"), 3)
}

// A page can also show two registries.
func TestMetricsOfTwoRegistriesShareAPage(t *testing.T) {
	reg := prometheus.NewRegistry()
	require.NoError(t, must(setpointprom.New(reg, nil)).Add("sites", must(workqueue.New(workqueue.Config[string]{}))))
	families, err := prometheus.Gatherers{foreign(theirHelp), reg}.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "workqueue_depth" {
			assert.Len(t, f.GetMetric(), 2)
		}
	}
}

func TestMetricsDoNotJoinOthersOfTheSameName(t *testing.T) {
	reg := foreign("the depth")
	_, err := setpointprom.New(reg, nil)
	require.ErrorContains(t, err, "workqueue_depth")
	assert.Len(t, lines(t, reg), 2, "nothing was registered")
	require.NoError(t, reg.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_adds_total", Help: "free"})))
}

func TestManyPrioritiesAreOneSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	q := must(workqueue.New(workqueue.Config[int]{}))
	for p := range 40 {
		q.AddWith(p, workqueue.AddOptions{Priority: p})
	}
	require.NoError(t, must(setpointprom.New(reg, nil)).Add("q", q))
	assert.Equal(t, []string{`workqueue_depth{controller="q",name="q",priority="exceeded_cardinality_limit"} 40`},
		only(lines(t, reg), "workqueue_depth"))
}
