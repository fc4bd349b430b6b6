package bench_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

const (
	leaseKey = "lease"
	halfway  = time.Millisecond // the time of a request to the store, and of its reply back
)

// candidate is a replica that competes for the lease, with either elector.
type candidate struct {
	name     string // of the replica, one each
	identity string // that the elector is told
	periods
	release bool          // ReleaseOnCancel
	request time.Duration // setpoint's RequestTimeout; 0 is its default. client-go leaves that to its lock
	drain   time.Duration // how long the work continues after its context has ended
}

// periods are the three durations of an elector.
type periods struct{ lease, renew, retry time.Duration }

// elector is an implementation: it returns a function that competes until its context ends, or an error if it refuses the candidate.
type elector struct {
	name    string
	compete func(w *leaseWorld, c candidate) (run func(context.Context), err error)
	usurp   func(leaderelect.Entry) leaderelect.Entry // the record, as another program writes it
}

// leaseWorld is a record, the connections to it, and the replicas that compete for it. It lives in a bubble and records when each replica
// works. Simulated are time, the connections to the store (cut, slow, late), and the end of a process. Real are both electors and the
// compare-and-swap register, which is the same for both.
type leaseWorld struct {
	t       testing.TB
	elector elector
	store   *memlease.Store
	running sync.WaitGroup                // electors
	working sync.WaitGroup                // client-go does not wait for its work
	cancels map[string]context.CancelFunc // of the test's goroutine

	mu sync.Mutex
	// mu guards the following. The store never blocks, so it is called with mu held.
	random    *rand.Rand
	cuts      map[string]*cut
	slow      map[string]time.Duration // the delay of the reply to the next write of a replica, which is then cut off
	late      map[string]time.Duration // after which all writes of a replica arrive
	crashed   map[string]bool
	spans     []*span
	holder    string    // the replica that has written the record; "" if it is free
	written   time.Time // the record, by a replica
	clobbered int       // how often a replica has emptied the record of another
}

// cut is the loss of all messages of a replica. At its end, pending messages arrive.
type cut struct {
	over    chan struct{} // closed at its end
	timeout time.Duration // after which the driver gives up a call; 0 means when the caller's context ends, negative means never
}

// span is a time in which a replica works.
type span struct {
	name       string
	begin, end time.Time // end is zero while it lasts
}

func newLeaseWorld(t testing.TB, e elector, seed uint64) *leaseWorld {
	w := &leaseWorld{
		t: t, elector: e, store: memlease.New(),
		cancels: make(map[string]context.CancelFunc),
		random:  rand.New(rand.NewPCG(seed, 6)),
		cuts:    make(map[string]*cut), slow: make(map[string]time.Duration), late: make(map[string]time.Duration),
		crashed: make(map[string]bool),
	}
	t.Cleanup(func() { // in any case: a bubble ends with its goroutines
		for name := range w.cancels {
			w.cancel(name)
			w.heal(name)
		}
		w.running.Wait()
		synctest.Wait() // the last one that began works
		w.working.Wait()
	})
	return w
}

// start makes c compete, or returns why the elector refuses it.
func (w *leaseWorld) start(c candidate) error {
	c.identity = cmp.Or(c.identity, c.name)
	run, err := w.elector.compete(w, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctrllog.IntoContext(context.Background(), ctrllog.Log.WithSink(nil)))
	w.cancels[c.name] = cancel
	w.running.Go(func() { run(ctx) })
	return nil
}

// cancel ends the context of a replica's elector.
func (w *leaseWorld) cancel(name string) { w.cancels[name]() }

// work is the work of a leader: it runs until ctx ends, and then for as long as the candidate drains.
func (w *leaseWorld) work(ctx context.Context, c candidate) {
	w.working.Add(1)
	defer w.working.Done()
	w.mu.Lock()
	s := &span{name: c.name, begin: time.Now()}
	if w.crashed[c.name] {
		s.end = s.begin
	}
	w.spans = append(w.spans, s)
	w.mu.Unlock()

	<-ctx.Done()
	time.Sleep(c.drain)

	w.mu.Lock()
	defer w.mu.Unlock()
	if s.end.IsZero() {
		s.end = time.Now()
	}
}

// pass waits for d, and for everything that happens at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// upTo returns a random duration below d.
func (w *leaseWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.float() * float64(d))
}

func (w *leaseWorld) float() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64()
}

// cut loses the messages of a replica from now on.
func (w *leaseWorld) cut(name string, timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts[name] = &cut{over: make(chan struct{}), timeout: timeout}
}

// heal ends the cut of a replica, if there is one.
func (w *leaseWorld) heal(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.cuts[name]; c != nil {
		close(c.over)
		delete(w.cuts, name)
	}
}

// crash ends the process of a replica: it stops working, and no message of it arrives.
func (w *leaseWorld) crash(name string) {
	w.cut(name, 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crashed[name] = true
	for _, s := range w.spans {
		if s.name == name && s.end.IsZero() {
			s.end = time.Now()
		}
	}
}

// usurp writes the record as another program does, or an operator by hand.
func (w *leaseWorld) usurp() {
	e, err := w.store.Get(context.Background(), leaseKey)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Put(w.elector.usurp(e))
}

// spansSince returns copies of the spans that began at or after begin, in the order in which they began.
func (w *leaseWorld) spansSince(begin time.Time) []span {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []span
	for _, s := range w.spans {
		if !s.begin.Before(begin) {
			list = append(list, *s)
		}
	}
	return list
}

// worksNow reports whether the replica works.
func (w *leaseWorld) worksNow(name string) bool {
	return slices.ContainsFunc(w.spansSince(time.Time{}), func(s span) bool { return s.name == name && s.end.IsZero() })
}

// successor waits until a replica other than the named one has begun to work since begin, and returns the time.
func (w *leaseWorld) successor(name string, begin time.Time) (time.Time, bool) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); pass(100 * time.Millisecond) {
		for _, s := range w.spansSince(begin) {
			if s.name != name {
				return s.begin, true
			}
		}
	}
	return time.Time{}, false
}

// together returns how long two replicas have worked at once so far, without the named ones.
func (w *leaseWorld) together(without ...string) time.Duration {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, s := range w.spansSince(time.Time{}) {
		if slices.Contains(without, s.name) {
			continue
		}
		if s.end.IsZero() {
			s.end = time.Now()
		}
		edges = append(edges, edge{s.begin, 1}, edge{s.end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.step, b.step)) })
	var sum time.Duration
	working := 0
	for i, e := range edges {
		if working > 1 {
			sum += e.at.Sub(edges[i-1].at)
		}
		working += e.step
	}
	return sum
}
