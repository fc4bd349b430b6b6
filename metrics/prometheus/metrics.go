package prometheus

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-go/setpoint/manager"
)

// ErrExists means that a manager is already in the registry, or that a part was added to the same Metrics before.
var ErrExists = errors.New("it is registered already")

// errGone means that a collector was unregistered before it could be joined.
var errGone = errors.New("prometheus: the collector was unregistered")

// Metrics exports the metrics of a [manager.Manager] and its parts, and of parts that were added. Use New to make one.
//
// All methods are safe for concurrent use.
type Metrics struct {
	registry  prometheus.Registerer
	collector *collector // of the registry: several Metrics may share it
	manager   *manager.Manager

	mu sync.Mutex
	// mu guards the following.
	added []part
}

// part is a part with metrics.
type part struct {
	name  string
	value any
}

// New registers the metrics of m, and of all parts that it has at the time of a scrape. The table in the package documentation
// lists them.
//
// Several managers may share a registry. If two parts have the same name, their series are merged: counters and most gauges are added. To
// keep them apart, pass [prometheus.WrapRegistererWith] with a label for each manager.
//
// reg may be the registry of controller-runtime, or another one that has metrics of client-go or controller-runtime with the same help text and
// labels: the series of both are in the same metrics.
//
// A nil m has no parts: see [Metrics.Add]. If m is already in reg, New returns an error that wraps [ErrExists]. If reg has another
// metric with one of these names, New returns the error of reg. It panics if reg is nil.
func New(reg prometheus.Registerer, m *manager.Manager) (*Metrics, error) {
	if reg == nil {
		panic("prometheus: New called with a nil registerer")
	}
	for {
		x := &Metrics{registry: reg, manager: m}
		err := x.register(newCollector(false))
		if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, errGone) {
			if err = findKubernetes(reg); err == nil {
				err = x.register(newCollector(true))
			}
		}
		switch {
		case errors.Is(err, errGone):
			continue // its last member has left, so the next attempt registers c
		case err != nil:
			return nil, fmt.Errorf("prometheus: new: %w", err)
		}
		return x, nil
	}
}

// register adds x to c and registers c, or adds x to the collector that is in the registry already.
func (x *Metrics) register(c *collector) error {
	x.collector = c
	err := c.join(x)
	if err == nil {
		err = x.registry.Register(c)
	}
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if c, ok := there.ExistingCollector.(*collector); ok {
			x.collector = c
			return c.join(x)
		}
	}
	if err == nil && c.guest {
		err = x.registry.Register(unchecked{c})
	}
	return err
}

// findKubernetes returns an error unless reg has or accepts each metric of Kubernetes with the help text and the labels that it has here.
func findKubernetes(reg prometheus.Registerer) error {
	for _, f := range newFamilies().all {
		if f.isOwn() {
			continue
		}
		probe := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.name, Help: f.help}, f.labels)
		err := reg.Register(probe)
		var there prometheus.AlreadyRegisteredError
		switch {
		case err == nil:
			reg.Unregister(probe)
		case !errors.As(err, &there):
			return err
		}
	}
	return nil
}

// Add adds a part that the manager does not run, under a name that becomes its label: a *workqueue.Queue, a
// *controller.Controller and its sources, an *informer.Informer, a store.Store, an *events.Recorder, a *leaderelect.Elector,
// a *shard.Slots, or a *featuregate.Gates, whose name is not used. A queue without Config.Timestamps has no durations.
//
// Add returns an error if p is none of these, is nil, or was added to x before ([ErrExists]).
func (x *Metrics) Add(name string, p any) error {
	if !known(p) {
		return fmt.Errorf("prometheus: add %q: %T has no numbers that this package knows", name, p)
	}
	if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("prometheus: add %q: it is a nil %T", name, p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.ContainsFunc(x.added, func(other part) bool { return same(other.value, p) }) {
		return fmt.Errorf("prometheus: add %q: %w", name, ErrExists)
	}
	x.added = append(x.added, part{name, p})
	return nil
}

// Unregister removes everything that x exports from the registry. Calling it again has no effect. If the registry also has metrics of client-go or
// controller-runtime, an empty collector stays.
func (x *Metrics) Unregister() {
	if x.collector.leave(x) {
		x.registry.Unregister(x.collector)
	}
}

// parts returns the parts that were added. Add only appends, so the result does not change.
func (x *Metrics) parts() []part {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.added
}

// same reports whether a and b are the same part.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// collector collects for all Metrics of a registry, because a registry accepts a name only once.
//
// A guest shares the metrics of Kubernetes with another collector. A registry refuses a second collector that describes them. So a guest
// describes only its own metrics, and an unchecked collector collects all.
type collector struct {
	families *families
	guest    bool

	mu sync.Mutex
	// mu guards the following.
	members []*Metrics
	gone    bool // the last member has left
}

func newCollector(guest bool) *collector { return &collector{families: newFamilies(), guest: guest} }

// join adds x. It returns ErrExists if the manager of x is already there.
func (c *collector) join(x *Metrics) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errGone
	}
	if x.manager != nil && slices.ContainsFunc(c.members, func(other *Metrics) bool { return other.manager == x.manager }) {
		return fmt.Errorf("the manager: %w", ErrExists)
	}
	c.members = append(c.members, x)
	return nil
}

// leave removes x. It reports whether x was the last one, so that the caller unregisters c.
func (c *collector) leave(x *Metrics) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.members, x)
	if i < 0 {
		return false
	}
	c.members = slices.Delete(c.members, i, i+1)
	c.gone = len(c.members) == 0
	return c.gone
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.families.all {
		if !c.guest || f.isOwn() {
			to <- f.desc
		}
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	if !c.guest {
		c.collect(to)
	}
}

// unchecked collects for a guest.
type unchecked struct{ guest *collector }

// Describe implements [prometheus.Collector]: a registry does not check a collector that describes nothing when it is registered.
func (unchecked) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (u unchecked) Collect(to chan<- prometheus.Metric) { u.guest.collect(to) }

// collect sends all metrics. It holds no lock while it asks the parts.
func (c *collector) collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	members := slices.Clone(c.members)
	c.mu.Unlock()
	s := newScrape(c.families)
	for _, x := range members {
		s.member(x)
	}
	s.send(to)
}
