package controller_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNilArgumentsAreRejected(t *testing.T) {
	for want, cfg := range map[string]controller.Config[string]{
		"Expectations[0] is nil":                   {Expectations: []controller.Expectations[string]{(*expectations.Versions[string])(nil)}},
		"Reads[1] is nil":                          {Reads: []controller.Informer{newInformer("a", newSource()), (*informer.Informer[string, object])(nil)}},
		"Queue.RateLimiter is a nil *workqueue.Bu": {Queue: workqueue.Config[string]{RateLimiter: (*workqueue.BucketRateLimiter[string])(nil)}},
	} {
		_, err := controller.New("x", noop, cfg)
		require.ErrorContains(t, err, `controller: new "x": Config.`+want)
	}
}

func TestInvalidWatchPanicsAtConstruction(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{}, noop)
	inf := newInformer("things", newSource())
	var none *informer.Informer[string, object]
	handler := func(func(string)) informer.Handler[string, object] { return informer.Handler[string, object]{} }
	for want, call := range map[string]func(){
		"controller: New called with a nil reconcile function": func() { _, _ = controller.New("x", nil, controller.Config[string]{}) },
		"controller: New called with nil as input 2": func() {
			_, _ = controller.New("x", noop, controller.Config[string]{}, controller.For(inf), nil)
		},
		"controller: New called with a zero Watch": func() {
			_, _ = controller.New("x", noop, controller.Config[string]{}, controller.Watch[string, object]{})
		},
		"controller: Share called with a nil Slots":      func() { c.Share((*shard.Slots)(nil)) },
		"controller: For called with a nil informer":     func() { controller.For(none) },
		"controller: Owns called with a nil informer":    func() { controller.Owns[int](nil, "Site") },
		"controller: Watches called with a nil informer": func() { controller.Watches(none, owner) },
		"controller: Watches called with a nil function": func() { controller.Watches[string](inf, nil) },
		"controller: Handles called with a nil informer": func() { controller.Handles(none, handler) },
		"controller: Handles called with a nil handler":  func() { controller.Handles[string](inf, nil) },
		"controller: Where called with a nil function":   func() { controller.For(inf).Where(nil) },
		"controller: When called with a nil function":    func() { controller.For(inf).When(nil) },

		"controller: NewCollector called with a nil children": func() {
			_, _ = controller.NewCollector[int, int](nil, nil, nil, controller.Config[string]{})
		},
		"controller: WaitReconciled called with a nil object": func() { _ = c.WaitReconciled(t.Context(), "a", nil) },
		"informer: WaitForSync called with nil as argument 2": func() { _ = informer.WaitForSync(t.Context(), nil) },
		"informer: WaitForSync called with nil as argument 3": func() { _ = informer.WaitForSync(t.Context(), inf, none) },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}
