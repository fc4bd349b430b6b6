package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// Replicas returns n systems that are alike except for their names: "sites-a", "sites-b", and so on, if that of system is "sites". With Slots and
// a Lease, they are the replicas of one program, which share its keys. The function New is called for each. Replicas panics unless n is 1 to 26.
func Replicas(n int, system System) []System {
	if n < 1 || n > 26 {
		panic(fmt.Sprintf("simtest: %d replicas: must be 1 to 26", n))
	}
	all := slices.Repeat([]System{system}, n)
	for i := range all {
		all[i].Name = fmt.Sprintf("%s-%c", system.Name, 'a'+i)
	}
	return all
}

// fleet is the systems that share the slots of one lease, which are called replicas, and the table of these slots. It stands for the leases of
// package shard: there, each process finds out by itself what the table says here.
//
//  1. A slot has at most one owner, and a greater term than that of each owner before.
//  2. The slots of a process that has ended, hangs, or has lost its leases go to the other replicas at once, unless none of them has any. After the
//     next step of the user, when nothing else is left to do, the replicas share the slots equally again. Those that have too many let the youngest
//     go. So a process that still runs gets its slots back, and others have worked in them in between.
//  3. A process that knows that it has to let a slot go does so when no work is in flight there, before it begins other work, and when
//     Controller.Revoked has returned.
//  4. An owner begins to work when Controller.Prepare has returned.
//
// As all of a run, a fleet is used by one goroutine at a time.
type fleet struct {
	run      *run
	lease    string
	hash     *shard.Slots // knows the slots of keys; it never runs
	replicas []*program   // in the order of World.Systems
	slots    []*slot
	moved    int // steps of the user that had begun when a slot last moved
}

// slot is a row of the table.
type slot struct {
	number int
	term   uint64   // of the last owner; 0 before the first
	last   string   // the name of the last owner
	owner  *tenure  // nil if there is none
	next   *program // the replica to which the owner has to let the slot go; nil if it has not
}

// tenure is the work of a process in a slot, from the time when it becomes the owner until it knows that it is the owner no longer, and has
// no work in flight.
type tenure struct {
	*slot
	p         *process
	leads     *leaderelect.Leadership
	end       func(why error) // of leads
	preparing []<-chan error  // results of Controller.Prepare; nil when all have arrived
	leaving   bool            // the process knows that it has to let the slot go, or has lost it
	working   int             // reconciles in flight
}

// share is what a process has of the slots of its fleet, as far as it knows. It is a [controller.Slots].
type share struct {
	fleet   *fleet
	p       *process
	tenures []*tenure // the oldest first
	lost    bool      // others may own its slots, and it gets none
	noticed bool      // it knows that
}

// makeFleets makes the fleets of the world. The error names a system that cannot be simulated.
func (r *run) makeFleets() error {
	for i, s := range r.programs {
		before := slices.IndexFunc(r.programs[:i], func(o *program) bool { return o.Lease == s.Lease && s.Lease != "" })
		switch {
		case s.Slots < 0:
			return fmt.Errorf("system %s: Slots is %d, and must not be negative", s.Name, s.Slots)
		case s.Slots > 0 && s.Lease == "":
			return fmt.Errorf("system %s has Slots and no Lease: the replicas that share the slots are the systems with the same Lease", s.Name)
		case s.Slots > 0 && r.concurrent:
			return fmt.Errorf("system %s has Slots, which run mode does not simulate: use step mode; the simulation of package manager has real "+
				"managers with Config.Shards", s.Name)
		case before >= 0 && s.Slots == 0 && r.programs[before].Slots == 0:
			return fmt.Errorf("system %s has the Lease %q, as system %s does: only systems with Slots share a Lease", s.Name, s.Lease, r.programs[before].Name)
		case before >= 0 && s.Slots != r.programs[before].Slots:
			return fmt.Errorf("system %s has %d Slots, and system %s with the same Lease has %d", s.Name, s.Slots, r.programs[before].Name, r.programs[before].Slots)
		case s.Slots == 0:
			continue
		case before >= 0:
			s.fleet = r.programs[before].fleet
		default:
			f := &fleet{run: r, lease: s.Lease}
			var err error
			f.hash, err = shard.New(shard.Config{
				Lease: leaderelect.Config{Store: memlease.New(), Key: s.Lease}, Slots: s.Slots,
				OnAcquired: func(context.Context, int) error { return nil },
			})
			if err != nil {
				return fmt.Errorf("system %s: %w", s.Name, err)
			}
			for n := range s.Slots {
				f.slots = append(f.slots, &slot{number: n})
			}
			s.fleet = f
			r.fleets = append(r.fleets, f)
		}
		s.fleet.replicas = append(s.fleet.replicas, s)
	}
	return nil
}

// turn does one thing: a process begins or ends its work in a slot, or slots get an owner. It returns false if there is nothing to do.
func (f *fleet) turn() bool {
	for _, s := range f.replicas {
		if s.p != nil && !s.p.dead.Load() && s.p.share.turn() {
			return true
		}
	}
	for _, s := range f.slots {
		if s.owner != nil && !s.owner.p.takesPart() {
			s.owner = nil
		}
	}
	return f.takeOver()
}

// takesPart reports whether a process can own slots.
func (p *process) takesPart() bool {
	return p == p.program.p && !p.dead.Load() && !p.zombie && !p.share.lost
}

// members returns the processes that can own slots.
func (f *fleet) members() (all []*process) {
	for _, s := range f.replicas {
		if s.p != nil && s.p.takesPart() {
			all = append(all, s.p)
		}
	}
	return all
}

// takeOver gives an owner to each slot that has none: the one to which it has to go, or else the one with the fewest slots among those that have
// any. It returns false if there was nothing to do.
func (f *fleet) takeOver() (did bool) {
	members := f.members()
	if slices.ContainsFunc(members, func(p *process) bool { return f.count(p) > 0 }) {
		members = slices.DeleteFunc(members, func(p *process) bool { return f.count(p) == 0 })
	}
	first := make(map[*process][]string)
	for _, s := range f.slots {
		if s.owner != nil {
			continue
		}
		p := f.fewest(members)
		if s.next != nil && s.next.p != nil && s.next.p.takesPart() {
			p = s.next.p
		}
		if p == nil {
			return did
		}
		if s.last == "" {
			first[p] = append(first[p], fmt.Sprint(s.number))
		} else {
			p.note("slot %d moves from %s to %s", s.number, s.last, p.name)
			f.moved = f.run.begun
		}
		did = true
		p.share.acquire(s)
	}
	for _, p := range members {
		if first[p] != nil {
			p.note("begins with slot %s", strings.Join(first[p], " and slot "))
		}
	}
	return did
}

// count returns how many slots a process has, or is about to get.
func (f *fleet) count(p *process) (n int) {
	for _, s := range f.slots {
		if s.next == p.program || s.next == nil && s.owner != nil && s.owner.p == p {
			n++
		}
	}
	return n
}

// fewest returns the first of the processes with the fewest slots, or nil if there is no process.
func (f *fleet) fewest(members []*process) (least *process) {
	for _, p := range members {
		if least == nil || f.count(p) < f.count(least) {
			least = p
		}
	}
	return least
}

// rebalance makes processes that have too many slots let some go to those that have too few. It returns false if there was nothing to do.
func (f *fleet) rebalance() (did bool) {
	members := f.members()
	for {
		least := f.fewest(members)
		most := least
		for _, p := range members {
			if f.count(p) > f.count(most) {
				most = p
			}
		}
		if least == nil || f.count(most)-f.count(least) < 2 {
			return did
		}
		did = true
		for _, t := range slices.Backward(most.share.tenures) {
			if !t.leaving {
				t.letGo(least.program)
				break
			}
		}
	}
}

// letGo makes the owner of a slot let it go to a replica.
func (t *tenure) letGo(to *program) { t.next, t.leaving = to, true }

// move makes the slot in which a process has a reconcile in flight go to the next replica, whose caches of a kind lag from here on.
func (f *fleet) move(p *process, kind string) {
	i := slices.IndexFunc(p.share.tenures, func(t *tenure) bool { return t.working > 0 && t.owner == t && !t.leaving })
	others := f.members()
	if at := slices.Index(others, p); at >= 0 {
		others = append(others[at+1:], others[:at]...)
	}
	if i < 0 || len(others) == 0 {
		p.note("FAULT a slot has to move, but there is none, or no other replica")
		return
	}
	t, to := p.share.tenures[i], others[0]
	p.note("FAULT slot %d has to move to %s, whose cache of %s lags from here on", t.number, to.name, kind)
	to.freeze(kind, f.run.db.version())
	t.letGo(to.program)
}

// acquire makes the process the owner of a slot, and begins to prepare it.
func (s *share) acquire(to *slot) {
	to.term++
	t := &tenure{slot: to, p: s.p}
	var work context.Context
	work, t.end = leaderelect.Appoint(s.p.ctx, fmt.Sprintf("%s/slot/%d", s.fleet.lease, to.number), to.term)
	t.leads, _ = leaderelect.FromContext(work)
	to.owner, to.next, to.last = t, nil, s.p.name
	s.tenures = append(s.tenures, t)
	for _, l := range s.p.loops {
		done := make(chan error, 1)
		// Ends with work, or when the controller is ready. A turn of the fleet, or the end of the process, waits for it.
		go func() {
			err := errEnded
			defer func() { done <- err }() // also after a Goexit
			err = l.Prepare(work, to.number)
		}()
		synctest.Wait()
		t.preparing = append(t.preparing, done)
	}
	s.p.ask()
}

// turn begins to work in a slot that is prepared, or lets a slot go. It returns false if there is nothing to do.
func (s *share) turn() bool {
	for i, t := range s.tenures {
		switch {
		case t.leaving && t.working == 0:
			s.tenures = slices.Delete(s.tenures, i, i+1)
			t.stop(leaderelect.ErrResigned)
			for _, l := range s.p.loops {
				l.Revoked(t.number)
			}
			s.p.ask()
			if t.owner == t {
				t.owner = nil
			}
			return true
		case t.preparing != nil && t.isPrepared():
			for _, l := range s.p.loops {
				l.Acquired(t.number)
			}
			return true
		}
	}
	if s.noticed && len(s.tenures) == 0 {
		s.lost, s.noticed = false, false
		return true
	}
	return false
}

// isPrepared reports whether all controllers are ready for the slot.
func (t *tenure) isPrepared() bool {
	for len(t.preparing) > 0 {
		select {
		case err := <-t.preparing[0]:
			t.preparing = t.preparing[1:]
			if err != nil {
				t.p.run.fail(ruleWorld, "%s cannot prepare slot %d: %v", t.p.name, t.number, err)
			}
		default:
			return false
		}
	}
	t.preparing = nil
	return true
}

// stop ends the leadership of the slot, and all that prepares it.
func (t *tenure) stop(why error) {
	t.end(why)
	for _, done := range t.preparing {
		<-done
	}
	t.preparing = nil
}

// lose takes the leases of all slots away from the process, which continues.
func (s *share) lose() {
	s.p.note("FAULT it loses its slots without noticing; its call is on its way")
	s.lost, s.p.until = true, time.Now().Add(noticeTime)
}

// notice lets the process notice that it has lost its slots. It returns false if it has not lost them, or knows that already.
func (s *share) notice() bool {
	if s == nil || !s.lost || s.noticed {
		return false
	}
	s.p.note("notices that it has lost its slots")
	s.noticed = true
	for _, t := range s.tenures {
		t.leaving = true
		t.end(leaderelect.ErrLeaseTaken)
	}
	synctest.Wait()
	return true
}

// has reports whether the process has the slot of a key of a controller. A nil share has all keys.
func (s *share) has(l loop, key string) bool {
	if s == nil {
		return true
	}
	slot, ok := l.slotOf(key)
	return ok && slices.ContainsFunc(s.tenures, func(t *tenure) bool { return t.number == slot })
}

// programName returns the name of the program of a system, which is the same for all replicas.
func (s *program) programName() string {
	if s.fleet != nil {
		return s.fleet.lease
	}
	return s.Name
}

// close ends all work of a process that has ended.
func (s *share) close() {
	if s == nil {
		return
	}
	for _, t := range s.tenures {
		t.stop(errEnded)
	}
}

// Slot implements [controller.Slots].
func (s *share) Slot(key string) int { return s.fleet.hash.Slot(key) }

// HashRange is that of shard.Slots.
func (s *share) HashRange(slot int) (from, to uint64) { return s.fleet.hash.HashRange(slot) }

// Begin implements [controller.Slots].
func (s *share) Begin(ctx context.Context, key string) (work context.Context, done func(), ok bool) {
	slot := s.Slot(key)
	i := slices.IndexFunc(s.tenures, func(t *tenure) bool { return t.number == slot })
	if i < 0 || s.tenures[i].preparing != nil {
		return ctx, func() {}, false
	}
	t := s.tenures[i]
	t.working++
	work, cancel := context.WithCancelCause(t.leads.NewContext(ctx))
	stop := context.AfterFunc(t.leads.Context(), func() { cancel(context.Cause(t.leads.Context())) }) // a call of cancel; no code waits for it
	return work, sync.OnceFunc(func() {
		stop()
		cancel(context.Canceled)
		t.working--
	}), true
}
