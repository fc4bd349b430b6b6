package prometheus

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// The parts with metrics, as interfaces, because most of their types have parameters.
type (
	queueStats interface {
		Stats() workqueue.Stats
		Totals() workqueue.Totals
		OldestReady() time.Duration
		DepthByPriority() map[int]int
	}
	controllerStats interface{ Stats() controller.Stats }
	informerStats   interface {
		Stats() informer.Stats
		Source() any
	}
	electorStats  interface{ Stats() leaderelect.Stats }
	slotsStats    interface{ Stats() shard.Stats }
	recorderStats interface{ Stats() events.Stats }
	storeStats    interface {
		Stats() store.Stats
		Kind() string
	}
	featureGates interface {
		All() iter.Seq[featuregate.Status]
	}
)

// known reports whether p has metrics.
func known(p any) bool {
	switch p.(type) {
	case queueStats, controllerStats, informerStats, electorStats, slotsStats, recorderStats, storeStats, featureGates:
		return true
	}
	return false
}

// scrape is the series of one scrape.
type scrape struct {
	*families

	series map[string]*series // by the name of the family and the values of the labels
	seen   []any              // parts that are included, so that none counts twice
}

type series struct {
	family *family
	labels []string
	value  float64

	// Of a histogram; value is the sum.
	histogram bool
	bounds    []time.Duration
	counts    []uint64
}

func newScrape(fs *families) *scrape {
	return &scrape{families: fs, series: make(map[string]*series)}
}

// at returns the series of f with these labels, and whether it is new.
func (s *scrape) at(f *family, labels []string) (at *series, fresh bool) {
	labels = slices.Clone(labels)
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "\uFFFD") // otherwise a registry refuses the whole scrape
	}
	key := fmt.Sprintf("%s%q", f.name, labels)
	at, ok := s.series[key]
	if !ok {
		at = &series{family: f, labels: labels}
		s.series[key] = at
	}
	return at, !ok
}

// set adds a value to a series. Values of series with the same labels are merged.
func (s *scrape) set(f *family, v float64, labels ...string) {
	at, fresh := s.at(f, labels)
	if fresh {
		at.value = v
	} else {
		at.value = f.merge(at.value, v)
	}
}

// count is set for a count.
func count[N int | uint64](s *scrape, f *family, n N, labels ...string) {
	s.set(f, float64(n), labels...)
}

// is is set for a condition.
func (s *scrape) is(f *family, yes bool, labels ...string) {
	v := 0.0
	if yes {
		v = 1
	}
	s.set(f, v, labels...)
}

// seconds is set for a duration.
func (s *scrape) seconds(f *family, d time.Duration, labels ...string) {
	s.set(f, d.Seconds(), labels...)
}

// observe adds the counts of h to a series.
func (s *scrape) observe(f *family, h workqueue.Histogram, labels ...string) {
	at, fresh := s.at(f, labels)
	if fresh {
		at.histogram, at.bounds, at.counts = true, h.Bounds, make([]uint64, len(h.Counts))
	}
	at.value += h.Sum.Seconds()
	for i, n := range h.Counts {
		at.counts[i] += n
	}
}

// send sends all series. The registry sorts them.
func (s *scrape) send(to chan<- prometheus.Metric) {
	for _, one := range s.series {
		if !one.histogram {
			to <- prometheus.MustNewConstMetric(one.family.desc, one.family.kind, one.value, one.labels...)
			continue
		}
		upTo := make(map[float64]uint64, len(one.bounds))
		n := uint64(0)
		for i, bound := range one.bounds {
			n += one.counts[i]
			le := bound.Seconds()
			if one.family.bounds != nil {
				le = one.family.bounds[i]
			}
			upTo[le] = n
		}
		n += one.counts[len(one.bounds)]
		to <- prometheus.MustNewConstHistogram(one.family.desc, n, one.value, upTo, one.labels...)
	}
}

// member adds what x exports.
func (s *scrape) member(x *Metrics) {
	if x.manager != nil {
		s.managed(x.manager.Stats())
	}
	for _, p := range x.parts() {
		s.part(p.name, p.value)
	}
}

// managed adds a manager, and its parts.
func (s *scrape) managed(m manager.Stats) {
	for _, state := range []string{"new", "syncing", "standby", "leading", "stopping", "ended"} {
		s.is(s.state, m.State == state, state)
	}
	for _, kind := range []string{"part", "informer", "election"} {
		for _, state := range []string{"waiting", "syncing", "running", "backing off", "stopping"} {
			s.set(s.parts, 0, kind, state)
		}
	}
	for _, p := range m.Parts {
		s.set(s.parts, 1, p.Kind, p.State)
		count(s, s.restarts, p.Restarts, p.Kind, p.Name)
		s.part(p.Name, p.Value)
	}
}

// part adds a part, unless it is already included.
func (s *scrape) part(name string, p any) {
	if slices.ContainsFunc(s.seen, func(other any) bool { return same(other, p) }) {
		return
	}
	s.seen = append(s.seen, p)
	switch p := p.(type) {
	case controllerStats:
		s.controller(name, p.Stats())
	case informerStats:
		s.informer(name, p)
	case electorStats:
		s.elector(name, p.Stats())
	case slotsStats:
		s.allSlots(name, p.Stats())
	case recorderStats:
		s.recorder(name, p.Stats())
	case queueStats:
		s.queue(p.Stats(), p.Totals(), p.OldestReady(), p.DepthByPriority(), name)
	case storeStats:
		s.store(p)
	case featureGates:
		s.gates(p)
	}
	if needs, ok := p.(interface{ Informers() []controller.Informer }); ok {
		for _, in := range needs.Informers() {
			s.part(in.Name(), in)
		}
	}
}

// maxPriorities is the number of priorities up to which each has a series, and manyPriorities the label otherwise, as in controller-runtime.
const (
	maxPriorities  = 25
	manyPriorities = "exceeded_cardinality_limit"
)

// queue adds a queue. The label controller repeats the name, as in controller-runtime.
func (s *scrape) queue(now workqueue.Stats, all workqueue.Totals, oldest time.Duration, depths map[int]int, name string) {
	for priority, n := range depths {
		label := strconv.Itoa(priority)
		if len(depths) > maxPriorities {
			label = manyPriorities
		}
		count(s, s.depth, n, name, name, label)
	}
	labels := []string{name, name}
	s.is(s.pausedQueue, now.Paused, labels...)
	count(s, s.adds, all.Added, labels...)
	s.observe(s.queueDuration, all.Waited, labels...)
	s.observe(s.workDuration, all.Worked, labels...)
	s.seconds(s.unfinished, now.Unfinished, labels...)
	s.seconds(s.longest, now.LongestRunning, labels...)
	count(s, s.retries, all.Delayed, labels...)
	s.seconds(s.oldestReady, oldest, labels...)
	count(s, s.parkedKeys, now.Parked, labels...)
	count(s, s.delayed, now.Delayed, labels...)
}

func (s *scrape) controller(name string, c controller.Stats) {
	if !c.Running { // as in a replica that does not lead: only the leader has to act on its parked and waiting keys
		c.Queue.Parked, c.OldestReady = 0, 0
		for by := range c.OldestHeld {
			c.OldestHeld[by] = 0
		}
	}
	s.queue(c.Queue, c.Totals, c.OldestReady, c.DepthByPriority, name)
	n := c.Outcomes
	failed := n[controller.Failed] + n[controller.TimedOut] + n[controller.Panicked] + n[controller.Parked]
	count(s, s.reconciles, failed, name, "error")
	count(s, s.reconciles, n[controller.Superseded]+n[controller.Canceled], name, "requeue")
	count(s, s.reconciles, c.Requeued+n[controller.Unfinished], name, "requeue_after")
	count(s, s.reconciles, n[controller.Succeeded]-c.Requeued, name, "success")
	count(s, s.errors, failed, name)
	count(s, s.terminal, n[controller.Parked], name)
	count(s, s.panics, c.Panics, name)
	s.observe(s.time, c.Durations, name)
	count(s, s.active, c.Queue.InProcess, name)
	count(s, s.workers, c.Workers, name)
	for outcome, n := range c.Outcomes {
		count(s, s.outcomes, n, name, strings.ToLower(outcome.String()))
	}
	count(s, s.fenced, c.Fenced, name)
	for by, n := range c.HeldBy {
		count(s, s.held, n, name, by)
	}
	for by, age := range c.OldestHeld {
		s.seconds(s.oldestHeld, age, name, by)
	}
	for in, lag := range c.CacheLag {
		s.seconds(s.cacheLag, lag, name, in)
	}
	count(s, s.unmapped, c.Unmapped, name)
	s.is(s.paused, c.Paused, name)
}

func (s *scrape) informer(name string, p informerStats) {
	in := p.Stats()
	count(s, s.objects, in.Objects, name)
	count(s, s.unread, in.Unread, name)
	count(s, s.missing, in.Missing, name)
	count(s, s.version, uint64(in.Version), name)
	if !in.LastReceived.IsZero() {
		s.seconds(s.silent, time.Since(in.LastReceived), name)
	}
	var delayed time.Duration
	if !in.DelayedSince.IsZero() {
		delayed = time.Since(in.DelayedSince)
	}
	s.seconds(s.heldUp, delayed, name)
	s.is(s.watching, in.Watching, name)
	count(s, s.pending, in.Pending, name)
	count(s, s.backlog, in.Backlog, name)
	count(s, s.lists, in.Lists, name)
	count(s, s.sourceErrors, in.Errors, name)
	for source := p.Source(); source != nil; {
		if st, ok := source.(storeStats); ok {
			s.part("", st)
		}
		derived, ok := source.(interface{ Source() any })
		if !ok {
			return
		}
		source = derived.Source()
	}
}

func (s *scrape) elector(name string, e leaderelect.Stats) {
	s.is(s.master, e.Leading, name)
	if e.Leading {
		s.left(e.Deadline, name)
	}
	count(s, s.terms, e.Terms, name)
	count(s, s.lost, e.Lost, name)
	s.is(s.leaseFails, e.LastError != nil, name)
}

func (s *scrape) left(deadline time.Time, name string) {
	s.seconds(s.leaseLeft, max(time.Until(deadline), 0), name)
}

func (s *scrape) allSlots(name string, slots shard.Stats) {
	if slots.Owned > 0 {
		s.left(slots.Deadline, name)
	}
	count(s, s.terms, slots.Acquired, name)
	count(s, s.lost, slots.Lost, name)
	s.is(s.leaseFails, slots.LastError != nil, name)
	count(s, s.slots, slots.Slots, name)
	count(s, s.slotsOwned, slots.Owned, name)
	count(s, s.slotsMembers, slots.Members, name)
}

func (s *scrape) recorder(name string, r events.Stats) {
	count(s, s.recorded, r.Recorded, name)
	count(s, s.limited, r.Limited, name)
	count(s, s.untold, r.Untold, name)
	for sink, q := range map[string]events.QueueStats{"write": r.Write, "store": r.Store} {
		count(s, s.waiting, q.Waiting, name, sink)
		count(s, s.delivered, q.Delivered, name, sink)
		count(s, s.merged, q.Merged, name, sink)
		count(s, s.dropped, q.Dropped, name, sink)
		count(s, s.failed, q.Failed, name, sink)
	}
}

func (s *scrape) store(p storeStats) {
	backend := ""
	if clock, ok := reconcile.ClockOf(p); ok && clock.DB != nil {
		backend = strings.TrimPrefix(fmt.Sprintf("%T", clock.DB), "*")
	}
	st := p.Stats()
	count(s, s.storeFenced, st.Fenced, p.Kind(), backend)
}

// gates adds features, with the stages of kubernetes_feature_enabled.
func (s *scrape) gates(p featureGates) {
	for f := range p.All() {
		stage := strings.ToUpper(f.Stage.String())
		if f.Stage == featuregate.GA {
			stage = ""
		}
		s.is(s.features, f.Enabled, f.Name, stage)
	}
}
