package debug

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/workqueue"
)

// overview is the first page.
type overview struct {
	header
	Elections []electionView `json:"elections"`
	Slots     []slotsView    `json:"slots"`
	Queues    []queueView    `json:"queues"`
	Informers []informerView `json:"informers"`
	Recorders []recorderView `json:"recorders"`
	Events    []eventView    `json:"events"` // the latest first
	Features  []featureView  `json:"features"`
	Parts     []partView     `json:"parts"`
}

type partView struct {
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Error    string    `json:"error,omitempty"` // the last failure, even if the part runs again
	Failing  string    `json:"failing,omitempty"`
}

type electionView struct {
	Name     string      `json:"name"`
	Leading  bool        `json:"leading"`
	Term     uint64      `json:"term,omitempty"`
	Deadline time.Time   `json:"deadline,omitzero"`
	Leader   *leaderView `json:"leader,omitempty"`
	Terms    uint64      `json:"terms"`
	Lost     uint64      `json:"lost"`
	Error    string      `json:"error,omitempty"`
}

type leaderView struct {
	Identity string            `json:"identity"`
	Term     uint64            `json:"term,omitempty"`
	Since    time.Time         `json:"since,omitzero"` // by the clock of the leader
	Metadata map[string]string `json:"metadata,omitempty"`
}

type slotsView struct {
	Name     string       `json:"name"`
	Slots    []slotView   `json:"slots"`
	Owned    int          `json:"owned"`
	Members  []leaderView `json:"members"`
	Deadline time.Time    `json:"deadline,omitzero"`
	Acquired uint64       `json:"acquired"`
	Lost     uint64       `json:"lost"`
	Error    string       `json:"error,omitempty"`
}

type slotView struct {
	Slot     int       `json:"slot"`
	Owner    string    `json:"owner,omitempty"`
	Term     uint64    `json:"term,omitempty"`
	Since    time.Time `json:"since,omitzero"` // by the clock of the owner
	Here     bool      `json:"here"`
	Replicas int       `json:"-"` // the number of the owner, for its color

	owner leaderView
}

type queueView struct {
	Name    string `json:"name"`
	Link    string `json:"link,omitempty"` // none for a queue without a controller
	Running bool   `json:"running"`
	Paused  bool   `json:"paused"`
	Workers int    `json:"workers"`

	Ready      int            `json:"ready"`
	InFlight   int            `json:"inFlight"`
	Delayed    int            `json:"delayed"`
	Parked     int            `json:"parked"`
	Remembered int            `json:"remembered"`
	Held       int            `json:"held"`
	HeldBy     map[string]int `json:"heldBy,omitempty"`
	Unmapped   int            `json:"unmapped"`

	OldestReady    float64            `json:"oldestReadySeconds"`
	OldestHeld     map[string]float64 `json:"oldestHeldSeconds,omitempty"`
	LongestRunning float64            `json:"longestRunningSeconds"`
	CacheLag       map[string]float64 `json:"cacheLagSeconds,omitempty"`
	Added          uint64             `json:"added"`
	Retried        uint64             `json:"retried"`
	Outcomes       map[string]uint64  `json:"outcomes,omitempty"`
	Panics         uint64             `json:"panics"`
	Fenced         uint64             `json:"fenced"`

	Depth []point `json:"depth"` // the oldest first
}

type informerView struct {
	Name     string    `json:"name"`
	Link     string    `json:"link"` // to the keys of its cache
	Synced   bool      `json:"synced"`
	Watching bool      `json:"watching"`
	Objects  int       `json:"objects"`
	Unread   int       `json:"unread"`  // objects that exist and cannot be read
	Missing  int       `json:"missing"` // records whose keys cannot be read
	Version  uint64    `json:"version"`
	Received time.Time `json:"lastReceived,omitzero"`
	Delayed  time.Time `json:"delayedSince,omitzero"`
	Lag      float64   `json:"lagSeconds"` // the maximum over all controllers
	Measured bool      `json:"lagMeasured"`
	Pending  int       `json:"pending"`
	Handlers int       `json:"handlers"`
	Backlog  int       `json:"backlog"`
	Lists    uint64    `json:"lists"`
	Errors   uint64    `json:"errors"`
	Error    string    `json:"error,omitempty"` // the last one, if the source has not answered since
}

type recorderView struct {
	Name     string `json:"name"`
	Recorded uint64 `json:"recorded"`
	Held     int    `json:"held"`
	Limited  uint64 `json:"limited"`
	Waiting  int    `json:"waiting"` // for Write and Store
	Dropped  uint64 `json:"dropped"`
	Failed   uint64 `json:"failed"`
}

type eventView struct {
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Link    string    `json:"link,omitempty"` // to the page of the object, or to the places that have its key
}

type featureView struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Stage       string `json:"stage"`
	Since       string `json:"since"`
	Enabled     bool   `json:"enabled"`
	Default     bool   `json:"default"`
	Set         bool   `json:"set"`
}

// newestEvents is the number of events in the overview.
const newestEvents = 12

// overview makes the first page.
func (h *Handler) overview(r *http.Request) (page, error) {
	ps := h.parts()
	h.sample(ps)
	o := &overview{header: h.header(ps, "")}
	o.Elections, o.Slots = []electionView{}, []slotsView{}
	o.Informers, o.Recorders, o.Features = []informerView{}, []recorderView{}, []featureView{}
	each(ps, func(name string, e anElector) { o.Elections = append(o.Elections, electionOf(name, e)) })
	each(ps, func(name string, s someSlots) { o.Slots = append(o.Slots, slotsOf(name, s)) })
	o.Queues = h.queues(ps)
	lags := make(map[string]float64)
	for _, q := range o.Queues {
		for name, lag := range q.CacheLag {
			lags[name] = max(lags[name], lag)
		}
	}
	each(ps, func(name string, in anInformer) {
		v := informerOf(name, in)
		v.Lag, v.Measured = lags[name]
		o.Informers = append(o.Informers, v)
	})
	each(ps, func(name string, r aRecorder) { o.Recorders = append(o.Recorders, recorderOf(name, r)) })
	o.Events = h.eventsOf(ps, func(events.Event) bool { return true }, newestEvents)
	if h.cfg.Gates != nil {
		for f := range h.cfg.Gates.All() {
			o.Features = append(o.Features, featureOf(f))
		}
	}
	o.Parts = h.partViews(ps)
	return page{"overview", o}, nil
}

// partViews returns the parts of the manager, with their results of the liveness probe.
func (h *Handler) partViews(ps parts) []partView {
	failing := make(map[string]string)
	for _, c := range h.checks("healthz") {
		failing[c.Name] = c.Error
	}
	views := []partView{}
	for _, p := range ps.all {
		if p.managed == nil {
			continue
		}
		v := partView{
			Kind: p.managed.Kind, Name: p.name, State: p.managed.State, Since: p.managed.Since, Restarts: p.managed.Restarts,
			Failing: failing[checkName(p.managed.Kind, p.name)],
		}
		if p.managed.Err != nil {
			v.Error = p.managed.Err.Error()
		}
		views = append(views, v)
	}
	return views
}

// queues returns all queues, those of controllers first.
func (h *Handler) queues(ps parts) []queueView {
	views := []queueView{}
	each(ps, func(name string, c aController) { views = append(views, h.controllerView(name, c.Stats())) })
	each(ps, func(name string, q aQueue) {
		v := queueView{Name: name, Running: true}
		v.setQueue(q.Stats(), q.Totals(), q.OldestReady())
		v.Depth = h.samples.get(name)
		views = append(views, v)
	})
	return views
}

// controllerView returns the queue of a controller.
func (h *Handler) controllerView(name string, s controller.Stats) queueView {
	v := queueView{
		Name: name, Link: queueLink(name, "", "", 0), Running: s.Running, Paused: s.Paused, Workers: s.Workers,
		Held: s.Held, HeldBy: s.HeldBy, Unmapped: s.Unmapped, Panics: s.Panics, Fenced: s.Fenced,
		OldestHeld: make(map[string]float64), CacheLag: make(map[string]float64), Outcomes: make(map[string]uint64),
	}
	v.setQueue(s.Queue, s.Totals, s.OldestReady)
	for by, age := range s.OldestHeld {
		v.OldestHeld[by] = age.Seconds()
	}
	for name, lag := range s.CacheLag {
		v.CacheLag[name] = lag.Seconds()
	}
	for outcome, n := range s.Outcomes {
		v.Outcomes[strings.ToLower(outcome.String())] = n
	}
	v.Depth = h.samples.get(name)
	return v
}

// Long reports whether a reconcile is in flight for so long that it is a problem.
func (v queueView) Long() bool { return v.LongestRunning >= longReconcile.Seconds() }

func (v *queueView) setQueue(q workqueue.Stats, all workqueue.Totals, oldest time.Duration) {
	v.Ready, v.InFlight, v.Delayed, v.Parked, v.Remembered = q.Ready, q.InProcess, q.Delayed, q.Parked, q.Remembered
	v.OldestReady, v.LongestRunning = oldest.Seconds(), q.LongestRunning.Seconds()
	v.Added, v.Retried = all.Added, all.Delayed
}

func electionOf(name string, e anElector) electionView {
	s := e.Stats()
	v := electionView{Name: name, Leading: s.Leading, Term: s.Term, Deadline: s.Deadline, Terms: s.Terms, Lost: s.Lost}
	if l, ok := e.Leader(); ok {
		v.Leader = leaderOf(l)
	}
	if s.LastError != nil {
		v.Error = s.LastError.Error()
	}
	return v
}

func leaderOf(l leaderelect.Leader) *leaderView {
	return &leaderView{l.Identity, l.Term, l.Since, l.Metadata}
}

func slotsOf(name string, s someSlots) slotsView {
	var stats shard.Stats = s.Stats()
	v := slotsView{
		Name: name, Owned: stats.Owned, Deadline: stats.Deadline, Acquired: stats.Acquired, Lost: stats.Lost,
		Members: []leaderView{}, Slots: []slotView{},
	}
	numbers := make(map[string]int) // by incarnation, because several replicas may have the same identity
	for i, m := range s.Members() {
		v.Members = append(v.Members, *leaderOf(m))
		numbers[m.Incarnation] = i + 1
	}
	owned := s.Owned()
	for n, l := range s.Owners() {
		v.Slots = append(v.Slots, slotView{n, l.Identity, l.Term, l.Since, slices.Contains(owned, n), numbers[l.Incarnation], *leaderOf(l)})
	}
	if stats.LastError != nil {
		v.Error = stats.LastError.Error()
	}
	return v
}

func informerOf(name string, in anInformer) informerView {
	s := in.Stats()
	v := informerView{
		Name: name, Link: cacheLink(name, "", 0), Synced: in.HasSynced(), Watching: s.Watching, Objects: s.Objects, Unread: s.Unread, Missing: s.Missing,
		Version: uint64(s.Version), Received: s.LastReceived, Delayed: s.DelayedSince,
		Pending: s.Pending, Handlers: s.Handlers, Backlog: s.Backlog, Lists: s.Lists, Errors: s.Errors,
	}
	if s.LastError != nil {
		v.Error = s.LastError.Error()
	}
	return v
}

func recorderOf(name string, r aRecorder) recorderView {
	s := r.Stats()
	return recorderView{
		Name: name, Recorded: s.Recorded, Held: s.Held, Limited: s.Limited, Waiting: s.Write.Waiting + s.Store.Waiting,
		Dropped: s.Write.Dropped + s.Store.Dropped, Failed: s.Write.Failed + s.Store.Failed,
	}
}

func featureOf(f featuregate.Status) featureView {
	return featureView{f.Name, f.Description, f.Stage.String(), f.Since, f.Enabled, f.Default, f.Set}
}

// eventsOf returns the newest events of all counting recorders, at most limit, the latest first.
func (h *Handler) eventsOf(ps parts, counts func(events.Event) bool, limit int) []eventView {
	var all []events.Event
	each(ps, func(_ string, r aRecorder) {
		for _, e := range r.Events() {
			if counts(e) {
				all = append(all, e)
			}
		}
	})
	slices.SortStableFunc(all, func(a, b events.Event) int { return b.Last.Compare(a.Last) })
	views := []eventView{}
	for _, e := range all[:min(limit, len(all))] {
		views = append(views, eventView{
			Kind: e.About.Kind, Key: e.About.Key, Type: e.Type.String(), Reason: e.Reason, Message: e.Message,
			Count: e.Count, First: e.First, Last: e.Last,
		})
	}
	ps.linkEvents(views)
	return views
}
