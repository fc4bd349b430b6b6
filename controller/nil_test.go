package controller_test

import (
	"context"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pointed is a reconciler by its pointer.
type pointed struct{ calls int }

func (p *pointed) Reconcile(context.Context, string) (controller.Result, error) {
	p.calls++
	return controller.Result{}, nil
}

func TestWhatIsNilIsRefusedBeforeItIsCalled(t *testing.T) {
	for _, r := range []controller.Reconciler[string]{nil, controller.Func[string](nil), (*pointed)(nil)} {
		_, err := controller.New("x", r, controller.Config[string]{})
		require.EqualError(t, err, `controller: new "x": the reconciler is nil`)
		_, err = controller.NewSharded("x", r, nil, controller.ShardedConfig[string]{})
		require.EqualError(t, err, `controller: new sharded "x": the reconciler is nil`)
	}
	for want, cfg := range map[string]controller.Config[string]{
		"Gate is a nil *controller.Breaker":  {Gate: (*controller.Breaker)(nil)},
		"Expectations[0] is nil":             {Expectations: []controller.Expectations[string]{(*expectations.Versions[string])(nil)}},
		"WaitFor[1] is nil":                  {WaitFor: []informer.Syncer{newInformer("a", newSource()), (*informer.Informer[string, object])(nil)}},
		"RateLimiter is a nil *workqueue.Bu": {RateLimiter: (*workqueue.BucketRateLimiter[string])(nil)},
	} {
		_, err := controller.New("x", controller.Func[string](noop), cfg)
		require.ErrorContains(t, err, `controller: new "x": Config.`+want)
	}
}

func TestAMistakeInAWatchPanicsAtTheCall(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{}, noop)
	inf := newInformer("things", newSource())
	var none *informer.Informer[string, object]
	keys := func(key string, _ object) []string { return []string{key} }
	failing := func(_ context.Context, key string, _ object) ([]string, error) { return []string{key}, nil }
	handler := func(func(string)) informer.Handler[string, object] { return informer.Handler[string, object]{} }
	for want, call := range map[string]func(){
		"controller: WatchKeys called with a nil informer":    func() { controller.WatchKeys(c, none) },
		"controller: Watch called with a nil informer":        func() { controller.Watch(c, none, keys) },
		"controller: WatchMap called with a nil informer":     func() { controller.WatchMap(c, none, failing) },
		"controller: WatchHandler called with a nil informer": func() { controller.WatchHandler(c, none, handler) },
		"controller: ObserveVersions called with a nil informer": func() {
			controller.ObserveVersions(c, none, must(expectations.NewVersions(expectations.Config[string]{})))
		},
		"controller: ObserveVersions called with nil versions":  func() { controller.ObserveVersions(c, inf, (*expectations.Versions[string])(nil)) },
		"controller: WatchKeys called with a nil controller":    func() { controller.WatchKeys[string](nil, inf) },
		"controller: WatchChannel called with a nil controller": func() { watchChannel(nil) },
		"controller: RunUntilSignal called with a nil function": func() { _ = controller.RunUntilSignal(t.Context(), nil) },
		"controller: WaitReconciled called with a nil cache":    func() { _ = c.WaitReconciled(t.Context(), "a", 1, nil) },
		"informer: WaitForSync called with nil as argument 2":   func() { _ = informer.WaitForSync(t.Context(), nil) },
		"informer: WaitForSync called with nil as argument 3":   func() { _ = informer.WaitForSync(t.Context(), inf, none) },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}

func watchChannel(c *controller.Controller[string]) {
	controller.WatchChannel(c, "x", make(chan int), func(context.Context, int) ([]string, error) { return nil, nil })
}
