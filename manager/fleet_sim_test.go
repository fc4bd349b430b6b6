package manager_test

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// fleetTeam is an owner, under whose key the replicas share the work.
type fleetTeam struct{ Color int }

// fleetPerson is an object that moves from team to team, and so from slot to slot. The key of a team determines its slot, so a team cannot move.
type fleetPerson struct{ Team string }

// fleetRoster is the child of a team. It has another key each time, so a reconcile that does not see it creates a second one.
type fleetRoster struct {
	Team, UID string // of the team
	Color     int
	Persons   []string
}

// fleetChange is a change of an object.
type fleetChange struct {
	version informer.Version
	team    string
	deleted bool
}

// fleetID is a kind and a key.
type fleetID struct{ kind, key string }

// fleetTerm is a term of the lease of a slot.
type fleetTerm struct {
	lease string
	term  uint64
}

// fleetWork is a reconcile in flight.
type fleetWork struct {
	r          *fleetReplica
	leadership *leaderelect.Leadership
	key        string
}

// fleet is replicas that share the teams, their database, and the model of what they may do.
type fleet struct {
	t       *testing.T
	plant   fleetPlant
	slots   int
	whole   bool // each cache has all objects
	zombies bool // most faults are pauses
	ranged  bool // the sources are informer.RangeListers
	lag     time.Duration
	chance  *looptest.Chance // of what happens within the replicas; the acts have another one

	leases  *memlease.Store
	db      *fleetDB
	teams   store.Store[fleetTeam]
	persons store.Store[fleetPerson]
	rosters store.Store[fleetRoster]
	created atomic.Int64 // rosters
	counts  *fleetCounts

	mu sync.Mutex
	// mu guards the following. It is held during each write, so that the model has each change that a cache has.
	violations []string
	version    informer.Version               // of the last change
	changes    map[fleetID][]fleetChange      // in order
	raised     map[fleetTerm]informer.Version // the version at which the first write of a term was accepted
	begun      map[string]uint64              // the greatest term in which a reconcile has begun, by lease
	based      map[fleetTerm]bool             // a reconcile has begun in it
	working    []*fleetWork
	replicas   []*fleetReplica
}

// fleetCounts are sums over all schedules. The field moves counts the deletions of objects that had moved away.
type fleetCounts struct {
	kills, leaves, joins, pauses, stalls, alone, acquired, reconciles, refused, drops, moves, expired atomic.Int64
}

func (c *fleetCounts) String() string {
	return fmt.Sprintf("%d joins, %d kills, %d leaves, %d times without a replica, %d pauses, %d stalls, %d slots acquired, %d reconciles, "+
		"%d refused writes, %d objects dropped, %d deleted by a move, %d watches expired", c.joins.Load(), c.kills.Load(), c.leaves.Load(), c.alone.Load(), c.pauses.Load(),
		c.stalls.Load(), c.acquired.Load(), c.reconciles.Load(), c.refused.Load(), c.drops.Load(), c.moves.Load(), c.expired.Load())
}

// fleetPlant is a mistake that a schedule has to reveal. The zero value is none.
type fleetPlant struct {
	name      string
	whole     bool // the caches are whole
	noCatchUp bool // no cache waits for anything at a takeover
	noRaise   bool
	noKeys    bool
	ownKey    bool // the children are divided by their own keys
	drainDrop bool
	noDrop    bool
	ownLeases bool
	prepare   func(ctx context.Context, p *fleetPart, slot int) error
}

// fleetDB is the database. It tells the model of each accepted write.
type fleetDB struct {
	*store.Memory
	w *fleet
}

func (db *fleetDB) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	db.w.mu.Lock()
	defer db.w.mu.Unlock()
	r, err := db.Memory.Transact(ctx, kind, key, fences, decide)
	if err == nil {
		db.w.accepted(kind, r, fences)
	}
	return r, err
}

// accepted records a write that the database has accepted, and that may have changed nothing.
func (w *fleet) accepted(kind string, r backend.Record, fences []backend.Fence) {
	for _, f := range fences {
		if f.Term < w.begun[f.Lease] {
			w.violate(3, "a write of term %d of %s to %s %s is accepted after a reconcile of term %d has begun", f.Term, f.Lease, kind, r.Key, w.begun[f.Lease])
		}
		if of := (fleetTerm{f.Lease, f.Term}); !w.based[of] {
			if _, ok := w.raised[of]; !ok {
				w.raised[of] = w.version
			}
		}
	}
	if r.Version <= w.version {
		return
	}
	w.version = r.Version
	w.trace("%s %s v%d deleted=%t %s %v", kind, r.Key, r.Version, r.Deleted, r.Value, fences)
	team := struct{ Team string }{r.Key}
	if kind != "team" {
		must(0, json.Unmarshal(r.Value, &team))
	}
	id := fleetID{kind, r.Key}
	w.changes[id] = append(w.changes[id], fleetChange{r.Version, team.Team, r.Deleted})
}

// violate records a violation of an invariant. w.mu is locked.
func (w *fleet) violate(invariant int, format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf("invariant %d: ", invariant)+fmt.Sprintf(format, args...))
}

// trace logs a step of a schedule that runs alone.
func (w *fleet) trace(format string, args ...any) {
	if os.Getenv("FLEET_SEED") != "" {
		w.t.Logf(time.Now().Format("04:05.000 ")+format, args...)
	}
}

func (w *fleet) violated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

// fleetHash is the hash of a team, as HashRange of shard.Slots defines it.
func fleetHash(team string) uint64 {
	sum := md5.Sum([]byte(team))
	return uint64(binary.BigEndian.Uint32(sum[:]))
}

// slotOf returns the slot of a team: each has an equal range of the hashes.
func (w *fleet) slotOf(team string) int { return int(fleetHash(team) * uint64(w.slots) >> 32) }

// at returns the state of an object at a version. It is a deletion if there was no object.
func (w *fleet) at(id fleetID, version informer.Version) fleetChange {
	all := w.changes[id]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].version <= version {
			return all[i]
		}
	}
	return fleetChange{deleted: true}
}

// left reports whether, after a version, an object was deleted or in a slot for which is returns true.
func (w *fleet) left(id fleetID, after informer.Version, is func(slot int, since informer.Version) bool) bool {
	return slices.ContainsFunc(w.changes[id], func(c fleetChange) bool {
		return c.version > after && (c.deleted || is(w.slotOf(c.team), c.version))
	})
}

// fleetReplica is one replica.
type fleetReplica struct {
	*looptest.Running
	w       *fleet
	name    string
	leases  *leases
	manager *manager.Manager
	teams   *store.Informer[fleetTeam]
	persons *store.Informer[fleetPerson]
	rosters *store.Informer[fleetRoster]
	caches  []fleetCache
	leaving bool        // written and read by the schedule, like heals
	heals   *time.Timer // ends a fault

	mu sync.Mutex
	// mu guards the following.
	lag     time.Duration
	data    fleetData
	changed chan struct{} // closed and replaced when data or pausing changes
	pausing bool

	// fleet.mu guards the following.
	dead  bool
	wakes bool                     // its pause ends soon after another replica has taken over from a reconcile in flight
	held  map[int]informer.Version // the slots in which work may begin, and since when
}

// fleetData is how a replica reaches the database.
type fleetData int

const (
	dataFlows fleetData = iota
	dataFails
	dataHangs
)

func (r *fleetReplica) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *fleetReplica) lags() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lag
}

// reach returns nil when the replica reaches the database.
func (r *fleetReplica) reach(ctx context.Context) error {
	for {
		r.mu.Lock()
		data, changed := r.data, r.changed
		r.mu.Unlock()
		switch data {
		case dataFlows:
			return nil
		case dataFails:
			return errBoom
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitGo waits while the replica is paused.
func (r *fleetReplica) awaitGo() {
	for {
		r.mu.Lock()
		pausing, changed := r.pausing, r.changed
		r.mu.Unlock()
		if !pausing {
			return
		}
		<-changed
	}
}

// fleetSource is how an informer of a replica reaches a store.
type fleetSource[T any] struct {
	store.Store[T]
	r *fleetReplica
}

func (s *fleetSource[T]) Source() any { return s.Store }

func (s *fleetSource[T]) List(ctx context.Context) (informer.List[store.Object[T]], error) {
	return informer.Collect(s.ListPages(ctx))
}

// ListPages lists at a random moment of a random time.
func (s *fleetSource[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[store.Object[T]], error] {
	return func(yield func(informer.List[store.Object[T]], error) bool) {
		if err := s.r.reach(ctx); err != nil {
			yield(informer.List[store.Object[T]]{}, err)
			return
		}
		time.Sleep(s.r.w.chance.Duration(s.r.w.lag / 4))
		list, err := s.Store.List(ctx)
		time.Sleep(s.r.w.chance.Duration(s.r.w.lag / 4))
		if err = cmp.Or(err, s.r.reach(ctx)); err != nil {
			list = informer.List[store.Object[T]]{}
		}
		yield(list, err)
	}
}

func (s *fleetSource[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[store.Object[T]], error] {
	return func(yield func(informer.Event[store.Object[T]], error) bool) {
		for ev, err := range (&lagging[store.Object[T]]{s.Store, s.r.lags}).Watch(ctx, after) {
			if errors.Is(err, informer.ErrExpired) {
				s.r.w.counts.expired.Add(1)
			}
			if err = cmp.Or(err, s.r.reach(ctx)); err != nil {
				ev = informer.Event[store.Object[T]]{}
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

func (s *fleetSource[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	if s.r.w.plant.noCatchUp {
		return 0, nil
	}
	if err := s.r.reach(ctx); err != nil {
		return 0, err
	}
	return s.Store.LatestVersion(ctx)
}

func (s *fleetSource[T]) RaiseFence(ctx context.Context) error {
	if s.r.w.plant.noRaise {
		return nil
	}
	if err := s.r.reach(ctx); err != nil {
		return err
	}
	return s.Store.RaiseFence(ctx)
}

// rangedSource is a source that can select by slot, as a table in Postgres can.
type rangedSource[T any] struct {
	*fleetSource[T]
	teamOf func(store.Object[T]) string
}

func (s *rangedSource[T]) ListRanges(ctx context.Context, ranges []informer.HashRange) iter.Seq2[informer.List[store.Object[T]], error] {
	return func(yield func(informer.List[store.Object[T]], error) bool) {
		for page, err := range s.ListPages(ctx) {
			page.Items = slices.DeleteFunc(page.Items, func(o store.Object[T]) bool {
				hash := fleetHash(s.teamOf(o))
				return !slices.ContainsFunc(ranges, func(in informer.HashRange) bool { return in.From <= hash && hash < in.To })
			})
			if !yield(page, err) {
				return
			}
		}
	}
}

// fleetCache is a cache of a replica, without its types.
type fleetCache struct {
	kind string
	held func() []int
	get  func(key string) (version informer.Version, team string, ok bool)
	keys func() []string
	// fleet.mu guards the following.
	handlers []map[string]fleetSeen // what each handler has got, by key
}

// fleetSeen is the version that a handler has got last of an object, and whether it was deleted since.
type fleetSeen struct {
	version informer.Version
	gone    bool
}

// join starts a replica.
func (w *fleet) join() {
	n := int(w.counts.joins.Add(1))
	r := &fleetReplica{
		w: w, name: fmt.Sprint("replica ", n), leases: &leases{Store: w.leases}, changed: make(chan struct{}), held: make(map[int]informer.Version),
		lag: w.chance.Duration(w.lag),
	}
	r.teams = fleetInformer(r, w.teams, func(o store.Object[fleetTeam]) string { return o.Key }, nil)
	r.persons = fleetInformer(r, w.persons, func(o store.Object[fleetPerson]) string { return o.Value.Team }, nil)
	var ownKey func(o store.Object[fleetRoster]) string
	if w.plant.ownKey {
		ownKey = func(o store.Object[fleetRoster]) string { return o.Key }
	}
	r.rosters = fleetInformer(r, w.rosters, func(o store.Object[fleetRoster]) string { return o.Value.Team }, ownKey)
	c := must(controller.New("rosters", r.reconcile, controller.Config[string]{Logger: quiet, Workers: 3},
		controller.For(r.teams), controller.Owns(r.rosters, "team"),
		controller.Watches(r.persons, func(_ context.Context, o store.Object[fleetPerson]) ([]string, error) {
			return []string{o.Value.Team}, nil
		}),
	))
	part := &fleetPart{c, r}
	if w.plant.ownLeases {
		r.leases.Store = memlease.New()
	}
	r.manager = must(manager.New(manager.Config{Logger: quiet, Shards: &shard.Config{
		Lease: leaderelect.Config{
			Store: r.leases, Key: "fleet", Identity: r.name, Logger: quiet, OnStepDownOverrun: func(*leaderelect.Leadership) {},
		},
		Slots: w.slots, OnAcquired: func(ctx context.Context, slot int) error {
			if w.plant.drainDrop {
				context.AfterFunc(ctx, func() { c.Revoked(slot) })
			}
			return nil
		},
	}}, part))
	r.Running = looptest.Start(w.t, r.manager.Run)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas = append(w.replicas, r)
}

// fleetInformer returns an informer of a store, and adds it to r.caches. divideBy is the function by which the cache is divided; it defaults to
// teamOf.
func fleetInformer[T any](
	r *fleetReplica, s store.Store[T], teamOf, divideBy func(store.Object[T]) string,
) *store.Informer[T] {
	if divideBy == nil {
		divideBy = teamOf
	}
	source := &fleetSource[T]{s, r}
	var src informer.ListWatcher[store.Object[T]] = source
	if r.w.ranged {
		src = &rangedSource[T]{source, divideBy}
	}
	if !r.w.whole {
		src = informer.Divide(src, divideBy)
	}
	in := must(informer.New(src, store.Key, informer.Config{Name: s.Kind() + "s", Logger: quiet}))
	cached := len(r.caches)
	r.caches = append(r.caches, fleetCache{
		kind: s.Kind(), held: in.Held, keys: func() []string { return slices.Sorted(in.Keys()) },
		get: func(key string) (informer.Version, string, bool) {
			o, ok := in.Get(key)
			return o.Version, teamOf(o), ok
		},
		handlers: []map[string]fleetSeen{{}, {}},
	})
	for i, inline := range []bool{true, false} {
		last := r.caches[cached].handlers[i]
		observe := func(f func()) {
			r.w.mu.Lock()
			defer r.w.mu.Unlock()
			if !r.dead {
				f()
			}
		}
		now := func(o store.Object[T]) {
			observe(func() {
				if before := last[o.Key]; o.Version < before.version {
					r.w.violate(8, "%v of %s goes back from %+v to version %d (inline: %t)", fleetID{s.Kind(), o.Key}, r.name, before, o.Version, inline)
				}
				last[o.Key] = fleetSeen{version: o.Version}
				r.w.trace("%s sees %s v%d of %s inline=%t", r.name, o.Key, o.Version, teamOf(o), inline)
			})
		}
		must(in.AddHandler(informer.Handler[string, store.Object[T]]{
			Inline:   inline,
			OnAdd:    func(o store.Object[T], _ bool) { now(o) },
			OnUpdate: func(_, o store.Object[T]) { now(o) },
			OnDelete: func(d cache.Tombstone[string, store.Object[T]]) {
				observe(func() {
					r.w.trace("%s deletes %s of %s inline=%t", r.name, d.Key, teamOf(d.Object), inline)
					r.checkDeletion(fleetID{s.Kind(), d.Key}, last[d.Key], inline)
					last[d.Key] = fleetSeen{last[d.Key].version, true}
				})
			},
			OnDrop: func(o store.Object[T]) {
				observe(func() {
					delete(last, o.Key)
					r.w.trace("%s drops %s of %s inline=%t", r.name, o.Key, teamOf(o), inline)
					if inline {
						r.checkDrop(fleetID{s.Kind(), o.Key}, teamOf(o))
					}
				})
			},
		}))
	}
	return in
}

// fleetPart is the controller of a replica. It plants mistakes that concern the order of a takeover.
type fleetPart struct {
	*controller.Controller[string]
	r *fleetReplica
}

func (p *fleetPart) Prepare(ctx context.Context, slot int) error {
	if p.r.w.plant.prepare != nil {
		return p.r.w.plant.prepare(ctx, p, slot)
	}
	return p.Controller.Prepare(ctx, slot)
}

func (p *fleetPart) Acquired(slot int) {
	p.r.w.counts.acquired.Add(1)
	p.r.w.mu.Lock()
	p.r.held[slot] = p.r.w.version
	p.r.w.trace("%s acquired %d", p.r.name, slot)
	for _, work := range p.r.w.working {
		if work.r.wakes && work.r != p.r && p.r.w.slotOf(work.key) == slot {
			work.r.wakes = false
			time.AfterFunc(p.r.w.chance.Duration(500*time.Millisecond), work.r.goOn)
		}
	}
	p.r.w.mu.Unlock()
	if !p.r.w.plant.noKeys {
		p.Controller.Acquired(slot)
	}
}

func (p *fleetPart) Revoked(slot int) {
	p.r.w.mu.Lock()
	delete(p.r.held, slot)
	p.r.w.trace("%s revoked %d", p.r.name, slot)
	p.r.w.mu.Unlock()
	if !p.r.w.plant.noDrop {
		p.Controller.Revoked(slot)
	}
}

// hold makes caches hold a slot in the background, until the slot is lost.
func (p *fleetPart) hold(ctx context.Context, slot int, caches ...interface {
	Hold(ctx context.Context, slot int) error
}) {
	l, _ := leaderelect.FromContext(ctx)
	for _, in := range caches {
		go func() { _ = in.Hold(l.Context(), slot) }() // ends with the leadership
	}
}

// checkDeletion checks that an object was deleted after it was seen, or has moved to a slot that was not held since before the move.
func (r *fleetReplica) checkDeletion(id fleetID, seen fleetSeen, inline bool) {
	if r.w.left(id, seen.version, func(int, informer.Version) bool { return false }) {
		return
	}
	if !r.w.whole && r.w.left(id, seen.version, func(slot int, moved informer.Version) bool {
		since, holds := r.held[slot]
		return !holds || moved <= since
	}) {
		r.w.counts.moves.Add(1)
		return
	}
	r.w.violate(5, "%s reports %v as deleted, which it has seen at version %d (inline: %t)", r.name, id, seen.version, inline)
}

// checkDrop checks that no work is in flight in the slot of an object that leaves a cache.
func (r *fleetReplica) checkDrop(id fleetID, team string) {
	r.w.counts.drops.Add(1)
	slot := r.w.slotOf(team)
	if since, holds := r.held[slot]; holds || r.w.whole {
		r.w.violate(6, "%s drops %v of slot %d, which it holds since version %d", r.name, id, slot, since)
	}
	for _, work := range r.w.working {
		if work.r == r && r.w.slotOf(work.key) == slot {
			r.w.violate(6, "%s drops %v of slot %d while it reconciles %s", r.name, id, slot, work.key)
		}
	}
}

// begin checks that a reconcile may begin. The function that it returns ends the reconcile. It returns nil if the process of the replica is dead.
func (r *fleetReplica) begin(l *leaderelect.Leadership, key string) (end func()) {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.dead {
		return nil
	}
	w.counts.reconciles.Add(1)
	w.trace("%s begins %s term %d", r.name, key, l.Term())
	slot := w.slotOf(key)
	if want := fmt.Sprint("fleet/slot/", slot); l.Key() != want {
		w.violate(1, "%s reconciles %s under the lease %s, want %s", r.name, key, l.Key(), want)
	}
	for _, other := range w.working {
		if other.key == key && other.leadership.Err() == nil && l.Err() == nil {
			w.violate(1, "%s reconciles %s in term %d, and so does %s in term %d", r.name, key, l.Term(), other.r.name, other.leadership.Term())
		}
	}
	of := fleetTerm{l.Key(), l.Term()}
	if raised, ok := w.raised[of]; ok {
		for _, in := range r.caches {
			r.checkFresh(in, slot, raised)
		}
	}
	w.begun[of.lease], w.based[of] = max(w.begun[of.lease], of.term), true
	work := &fleetWork{r, l, key}
	w.working = append(w.working, work)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.working = slices.DeleteFunc(w.working, func(other *fleetWork) bool { return other == work })
	}
}

// checkFresh checks that a cache has what was in a slot when its fence was raised, or later states.
func (r *fleetReplica) checkFresh(in fleetCache, slot int, raised informer.Version) {
	w := r.w
	elsewhere := func(other int, _ informer.Version) bool { return other != slot }
	for id := range w.changes {
		if id.kind != in.kind {
			continue
		}
		then := w.at(id, raised)
		there := !then.deleted && w.slotOf(then.team) == slot
		version, team, cached := in.get(id.key)
		switch {
		case there && !cached && !w.left(id, raised, elsewhere):
			w.violate(2, "%s begins in slot %d without %v, which is at version %d since before %d", r.name, slot, id, then.version, raised)
		case there && cached && version < then.version:
			w.violate(2, "%s begins in slot %d with %v at version %d, which is at %d since before %d", r.name, slot, id, version, then.version, raised)
		case !there && cached && w.slotOf(team) == slot && version <= raised:
			w.violate(2, "%s begins in slot %d with %v, which has left it before %d", r.name, slot, id, raised)
		}
	}
}

var errDead = errors.New("the process was killed")

// step is between two actions of a reconcile. There, a process may be stopped and go on, or be killed.
func (r *fleetReplica) step(ctx context.Context) error {
	if chance := r.w.chance; chance.UpTo(3) > 0 {
		time.Sleep(chance.Duration(4 * time.Second))
	}
	r.awaitGo()
	err := r.reach(ctx)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.dead {
		return errDead
	}
	return err
}

// reconcile makes one roster of a team, and deletes the other ones, and those of a team that is gone.
func (r *fleetReplica) reconcile(ctx context.Context, key string) (controller.Result, error) {
	l, _ := leaderelect.FromContext(ctx)
	end := r.begin(l, key)
	if end == nil {
		return controller.Result{}, errDead
	}
	defer end()
	if r.w.chance.UpTo(4) > 0 {
		ctx = context.WithoutCancel(ctx) // as a process that was stopped, and is about to write
	}
	err := r.apply(ctx, key)
	r.w.trace("%s ends %s: %v", r.name, key, err)
	if errors.Is(err, store.ErrFenced) {
		r.w.counts.refused.Add(1)
	}
	return controller.Result{}, err
}

func (r *fleetReplica) apply(ctx context.Context, key string) error {
	team, exists := r.teams.Get(key)
	want := fleetRoster{Team: key, UID: team.UID, Color: team.Value.Color, Persons: []string{}}
	for name, person := range r.persons.All() {
		if person.Value.Team == key {
			want.Persons = append(want.Persons, name)
		}
	}
	slices.Sort(want.Persons)
	var have []store.Object[fleetRoster]
	for _, roster := range r.rosters.All() {
		if roster.Value.Team == key {
			have = append(have, roster)
		}
	}
	slices.SortFunc(have, func(a, b store.Object[fleetRoster]) int { return cmp.Compare(a.Key, b.Key) })
	found := false
	for _, roster := range have {
		if err := r.step(ctx); err != nil {
			return err
		}
		if !exists || roster.Value.UID != team.UID || found {
			if _, err := r.w.rosters.Delete(ctx, roster.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			continue
		}
		found, roster.Value = true, want
		if _, err := r.w.rosters.Update(ctx, roster); err != nil {
			return err
		}
	}
	if !exists || found {
		return nil
	}
	if err := r.step(ctx); err != nil {
		return err
	}
	roster := store.Object[fleetRoster]{Key: fmt.Sprintf("roster %05d", r.w.created.Add(1)), Value: want}
	if err := owner.SetController(&roster, team.Ref()); err != nil {
		return err
	}
	_, err := r.w.rosters.Create(ctx, roster)
	return err
}

// user changes something, as somebody who is not fenced.
func (w *fleet) user(acts *looptest.Chance) {
	ctx := w.t.Context()
	team, person := fmt.Sprint("team ", acts.UpTo(8)), fmt.Sprint("person ", acts.UpTo(8))
	paint := func() {
		color := acts.UpTo(1000)
		must(store.CreateOrUpdate(ctx, w.teams, team, func(o *store.Object[fleetTeam]) error {
			o.Value.Color = color
			return nil
		}))
	}
	remove := func(_ any, err error) {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			panic(err)
		}
	}
	switch acts.UpTo(10) {
	case 0, 1, 2:
		paint()
	case 3:
		remove(w.teams.Delete(ctx, team))
	case 4:
		remove(w.teams.Delete(ctx, team))
		paint()
	case 5:
		remove(w.persons.Delete(ctx, person))
	case 6:
		if all := must(w.rosters.List(ctx)).Items; len(all) > 0 {
			remove(w.rosters.Delete(ctx, all[acts.UpTo(len(all))].Key))
		}
	default:
		must(store.CreateOrUpdate(ctx, w.persons, person, func(o *store.Object[fleetPerson]) error {
			o.Value.Team = team
			return nil
		}))
	}
}

// alive returns the replicas that were neither killed nor asked to leave.
func (w *fleet) alive() []*fleetReplica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.replicas), func(r *fleetReplica) bool { return r.dead || r.leaving })
}

// busy returns the replicas that reconcile something.
func (w *fleet) busy(of []*fleetReplica) []*fleetReplica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(of), func(r *fleetReplica) bool {
		return !slices.ContainsFunc(w.working, func(work *fleetWork) bool { return work.r == r })
	})
}

func (r *fleetReplica) kill() {
	r.w.counts.kills.Add(1)
	r.leases.off.Store(true)
	r.w.mu.Lock()
	r.dead = true
	r.w.working = slices.DeleteFunc(r.w.working, func(work *fleetWork) bool { return work.r == r })
	r.w.mu.Unlock()
	r.set(func() { r.data, r.pausing = dataFails, false })
	r.Cancel()
}

func (r *fleetReplica) leave() {
	r.w.counts.leaves.Add(1)
	r.leaving = true
	r.Cancel()
}

// goOn ends a pause or a stall.
func (r *fleetReplica) goOn() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if !r.dead {
		r.leases.off.Store(false)
		r.set(func() { r.data, r.pausing = dataFlows, false })
	}
}

// fault makes something go wrong, or changes who takes part.
func (w *fleet) fault(acts *looptest.Chance) {
	alive := w.alive()
	kind := acts.UpTo(16)
	if kind > 4 && w.zombies {
		kind = 7
	}
	if len(alive) == 0 || kind < 3 && len(alive) < 5 {
		w.join()
		return
	}
	r := alive[acts.UpTo(len(alive))]
	if busy := w.busy(alive); len(busy) > 0 {
		r = busy[acts.UpTo(len(busy))]
	}
	heals := 5*time.Second + acts.Duration(55*time.Second)
	stall := func(lease bool, data fleetData, pausing bool) {
		r.leases.off.Store(lease)
		r.set(func() { r.data, r.pausing = data, pausing })
		if r.heals != nil {
			r.heals.Stop() // the last fault counts
		}
		r.heals = time.AfterFunc(heals, r.goOn)
	}
	broken := dataFails + fleetData(acts.UpTo(2))
	switch kind {
	case 3, 4:
		r.leave()
	case 5, 6:
		r.kill()
	case 7, 8, 9:
		w.counts.pauses.Add(1)
		w.mu.Lock()
		r.wakes = acts.UpTo(2) == 0
		w.mu.Unlock()
		stall(true, []fleetData{dataFlows, dataFlows, dataFails, dataHangs}[acts.UpTo(4)], true)
		for range 8 { // so that it has something to write when it goes on
			w.user(acts)
		}
	case 10:
		w.counts.pauses.Add(1)
		stall(false, dataFlows, true) // it keeps its lease
	case 11:
		w.counts.stalls.Add(1)
		stall(true, dataFlows, false)
	case 12:
		w.counts.stalls.Add(1)
		stall(false, broken, false)
	case 13:
		w.counts.stalls.Add(1)
		stall(true, broken, false)
	case 14:
		w.counts.alone.Add(1)
		for _, r := range alive {
			if acts.UpTo(2) == 0 {
				r.kill()
			} else {
				r.leave()
			}
		}
		for range acts.UpTo(4) {
			w.user(acts)
			time.Sleep(acts.Duration(20 * time.Second))
		}
	default:
		lag := acts.Duration(w.lag)
		r.set(func() { r.lag = lag })
	}
}

// unrest returns what is not as it should be at rest, by invariants 4 and 7.
func (w *fleet) unrest() (found []string) {
	ctx := w.t.Context()
	no := func(invariant int, format string, args ...any) {
		found = append(found, fmt.Sprintf("invariant %d: ", invariant)+fmt.Sprintf(format, args...))
	}
	byTeam := make(map[string][]store.Object[fleetRoster])
	for _, roster := range must(w.rosters.List(ctx)).Items {
		byTeam[roster.Value.Team] = append(byTeam[roster.Value.Team], roster)
	}
	members := make(map[string][]string)
	for _, person := range must(w.persons.List(ctx)).Items { // in order
		members[person.Value.Team] = append(members[person.Value.Team], person.Key)
	}
	for _, team := range must(w.teams.List(ctx)).Items {
		have := byTeam[team.Key]
		delete(byTeam, team.Key)
		if len(have) != 1 {
			no(4, "%s has %d rosters", team.Key, len(have))
		} else if got := have[0].Value; got.UID != team.UID || got.Color != team.Value.Color || !slices.Equal(got.Persons, members[team.Key]) {
			no(4, "%s, %s, has %+v and %v, and its roster says %+v", team.Key, team.UID, team.Value, members[team.Key], got)
		}
	}
	for team, have := range byTeam {
		no(4, "%s is gone, and has %d rosters", team, len(have))
	}

	owners := make([]int, w.slots)
	for _, r := range w.alive() {
		if r.Ended() {
			no(4, "%s has ended: %v", r.name, r.Stop())
			continue
		}
		owned := r.manager.Slots().Owned()
		for _, slot := range owned {
			owners[slot]++
		}
		w.mu.Lock()
		for _, in := range r.caches {
			r.checkExact(in, owned, no)
		}
		w.mu.Unlock()
	}
	for slot, n := range owners {
		if n != 1 {
			no(4, "slot %d has %d owners", slot, n)
		}
	}
	return found
}

// checkExact checks that a cache, and its handlers, have exactly the objects of the slots that the replica owns.
func (r *fleetReplica) checkExact(in fleetCache, owned []int, no func(invariant int, format string, args ...any)) {
	want, has := make(map[string]informer.Version), make(map[string]informer.Version)
	for id := range r.w.changes {
		now := r.w.at(id, r.w.version)
		if id.kind == in.kind && !now.deleted && (r.w.whole || slices.Contains(owned, r.w.slotOf(now.team))) {
			want[id.key] = now.version
		}
	}
	for _, key := range in.keys() {
		has[key], _, _ = in.get(key)
	}
	if !maps.Equal(want, has) {
		no(7, "%s owns the slots %v, and has the %ss %v, want %v", r.name, owned, in.kind, has, want)
	}
	if held := in.held(); !r.w.whole && !slices.Equal(held, owned) {
		no(7, "%s owns the slots %v, and its %ss are those of %v", r.name, owned, in.kind, held)
	}
	for _, handler := range in.handlers {
		got := make(map[string]informer.Version)
		for key, seen := range handler {
			if !seen.gone {
				got[key] = seen.version
			}
		}
		if !maps.Equal(want, got) {
			no(7, "%s has reported the %ss %v, want %v", r.name, in.kind, got, want)
		}
	}
}

// fleetSchedule runs a fleet. It returns the violations.
func fleetSchedule(t *testing.T, seed int, plant fleetPlant, counts *fleetCounts) []string {
	acts := looptest.NewChance(uint64(seed), 23)
	w := &fleet{
		t: t, plant: plant, slots: 2 + acts.UpTo(7), whole: acts.UpTo(6) == 0, ranged: acts.UpTo(2) == 0, lag: acts.Duration(5 * time.Second),
		chance: looptest.NewChance(uint64(seed), 24), leases: memlease.New(), counts: counts,
		changes: make(map[fleetID][]fleetChange), raised: make(map[fleetTerm]informer.Version), begun: make(map[string]uint64),
		based: make(map[fleetTerm]bool),
	}
	w.zombies = acts.UpTo(4) == 0
	if plant.name != "" {
		w.whole, w.zombies = plant.whole, plant.noRaise
	}
	w.db = &fleetDB{store.NewMemory(store.MemoryConfig{History: 30}), w}
	w.teams = must(store.Open[fleetTeam](w.db, "team", store.Config[fleetTeam]{}))
	w.persons = must(store.Open[fleetPerson](w.db, "person", store.Config[fleetPerson]{}))
	w.rosters = must(store.Open[fleetRoster](w.db, "roster", store.Config[fleetRoster]{}))
	for range 12 {
		w.user(acts)
	}
	for range 1 + acts.UpTo(3) {
		w.join()
	}
	for act := 0; act < 20 && !w.violated(); act++ {
		time.Sleep(acts.Duration(10 * time.Second))
		many := acts.UpTo(6)
		if acts.UpTo(12) == 0 {
			many = 100 // more than the history has
		}
		for range many {
			w.user(acts)
		}
		time.Sleep(acts.Duration(5 * time.Second)) // so that reconciles are in flight
		w.fault(acts)
	}
	w.settle()
	for _, r := range w.replicas {
		_ = r.Stop()
	}
	return w.violations
}

// settle ends all faults, and waits until the fleet is at rest.
func (w *fleet) settle() {
	for _, r := range w.replicas {
		r.goOn()
	}
	if len(w.alive()) == 0 {
		w.join()
	}
	if w.violated() {
		return
	}
	for waited := 0; waited < 100 && len(w.unrest()) > 0; waited++ {
		time.Sleep(5 * time.Second)
	}
	time.Sleep(20 * time.Second) // nothing may change anymore
	w.violations = append(w.violations, w.unrest()...)
}

// TestFleetKeepsItsGuarantees runs random schedules of up to five replicas that share teams by 2 to 8 slots. Each reconciles a team: it makes one
// child, the roster, from the team and its persons, which move from team to team. A team cannot move, since its key determines its slot. The caches
// are divided, and whole in every sixth schedule. Replicas join, leave, and die, all at once or one by one. They lose their leases, the database, or
// both, which fails or hangs. They are paused in the middle of a reconcile, and then write on. Users create, change, delete, and recreate things,
// also so many that watches expire. The model is in the database: each change, and the terms of each accepted write. These invariants hold:
//
//  1. No key is reconciled by two replicas with valid leaderships at once.
//  2. A reconcile begins only when each cache has what was in its slot when the fence of the slot was raised, or later states.
//  3. After a reconcile of a term has begun, no write of a lower term of the slot is accepted.
//  4. At rest, each slot has one owner, each team has one roster, which is right, and no roster lacks its team.
//  5. OnDelete is called only for an object that is gone, or has moved to a slot that is not held.
//  6. The objects of a slot leave a cache only after the last reconcile in it has ended.
//  7. At rest, each cache has exactly the objects of the slots that its replica owns, and handlers know exactly these.
//  8. For a key, a cache never goes back while its slot is held.
//
// The acts follow from the seed. Goroutines that are ready at the same instant may take turns in another order, so a schedule that fails may pass
// when it is repeated. FLEET_SEED repeats one, and logs its steps.
func TestFleetKeepsItsGuarantees(t *testing.T) {
	counts, few := &fleetCounts{}, 50
	if raceEnabled {
		few = 10
	}
	run := func(t *testing.T, seed int) {
		if violations := fleetSchedule(t, seed, fleetPlant{}, counts); len(violations) > 0 {
			t.Errorf("FLEET_SEED=%d: %d violations, the first:\n%s", seed, len(violations), violations[0])
		}
	}
	if text := os.Getenv("FLEET_SEED"); text != "" {
		seed := must(strconv.Atoi(text))
		synctest.Test(t, func(t *testing.T) { run(t, seed) })
	} else {
		t.Run("schedules", func(t *testing.T) { looptest.Lanes(t, looptest.Effort("FLEET_SCHEDULES", few, 2000), run) })
	}
	t.Log(counts)
}

var fleetPlants = []fleetPlant{
	{name: "whole caches without a barrier", whole: true, noCatchUp: true},
	{name: "no raise of the fence", noRaise: true},
	{name: "the keys of an acquired slot are not added", noKeys: true},
	{name: "the children are divided by their own keys", ownKey: true},
	{name: "a drop during the drain", drainDrop: true},
	{name: "the objects of a slot stay", noDrop: true},
	{name: "each replica has leases of its own", ownLeases: true},
	{name: "work begins before the slot is held", prepare: func(ctx context.Context, p *fleetPart, slot int) error {
		p.hold(ctx, slot, p.r.teams, p.r.persons, p.r.rosters)
		return p.r.w.teams.RaiseFence(ctx)
	}},
	{name: "work does not wait for the children", prepare: func(ctx context.Context, p *fleetPart, slot int) error {
		p.hold(ctx, slot, p.r.rosters)
		return errors.Join(p.r.w.teams.RaiseFence(ctx), p.r.teams.Hold(ctx, slot), p.r.persons.Hold(ctx, slot))
	}},
}

// Each mistake has to be found in a few of the schedules above.
func TestFleetSimulationFindsPlantedMistakes(t *testing.T) {
	for _, plant := range fleetPlants {
		t.Run(plant.name, func(t *testing.T) {
			var found []string
			seed := 0
			for ; seed < 100 && len(found) == 0; seed++ {
				synctest.Test(t, func(t *testing.T) { found = fleetSchedule(t, seed, plant, &fleetCounts{}) })
			}
			require.NotEmpty(t, found, "in %d schedules", seed)
			t.Logf("schedule %d: %s", seed-1, found[0])
		})
	}
}
