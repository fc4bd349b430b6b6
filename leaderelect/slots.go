package leaderelect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Slots shares keys among replicas: each key belongs to one of a fixed number of slots, and each slot is a lease of its
// own, led by one replica at a time, with the term, the deadline and the guarantees of an [Elector]: it is one. With one
// slot it is leader election.
//
// Replicas know of each other by a lease that each of them keeps, its seat. From who is there and who owns what, each
// computes the same plan. One that owns too much drains a slot and hands it over; nobody takes a slot that is led.
//
//	replica joins                replica leaves, or dies
//	      │                            │
//	      ▼                            ▼
//	takes a seat                 its seat is released, or expires
//	      │                            │
//	      └───────────► plan ◄─────────┘
//	                     │
//	      ┌──────────────┴───────────────┐
//	      ▼                              ▼
//	owns a slot too many           is to own a slot
//	      │                              │
//	revoke: no new work            waits until it is free
//	      │                              │
//	drain: work under way ends           │
//	      │                              │
//	release, to the new owner ─────► acquire: OnAcquired, a new term
//
// Work on a key begins with [Slots.Begin], which tells whether its slot is owned, and is told when it has to stop. The
// other methods may be called by many goroutines at once, also while nothing runs.
type Slots struct {
	cfg   SlotsConfig
	log   *slog.Logger
	lease Config // with defaults
	slots []*slot
	seat  *seat
	peers *peers

	mu sync.Mutex
	// mu guards the following.
	running bool
	number  agreement
}

// SlotsConfig is what [Slots] needs to know.
type SlotsConfig struct {
	// Lease is what the leases of all slots have in common: Store, Key, Identity, the durations, Metadata and so on.
	// The records are named after Key: slot 7 is Key/slot/7, and seat 2 is Key/seat/2. Unless there is only one slot,
	// Store has to be a [Lister]. OnStartedLeading, OnStoppedLeading, OnNewLeader and Sentinel must be nil; the other
	// callbacks and the Hooks are called for any slot, at the same time for several. ReleaseOnCancel is always on.
	Lease Config

	// Slots is the number of slots. It decides which slot a key has, so all replicas must have the same number: it is
	// recorded under Lease.Key, and Run returns an error that wraps [ErrMismatch] if the record has another one. To change
	// it, stop all replicas, delete that record, and start them with the new number. Choose a multiple of the greatest
	// number of replicas. At most 4096. Defaults to 64.
	Slots int

	// Seats is how many replicas may take part at a time. More than that wait. At most 4096. Defaults to 16, or Slots if
	// that is more.
	Seats int

	// OnAcquired is called when a slot was acquired, and Owns and Begin are true for its keys: it enqueues them. It may
	// also stay and work until ctx ends, as OnStartedLeading does: the slot is released when it has returned and all work
	// that was begun is done. ctx has the [Leadership] of the slot, and ends when the slot is to be handed over or is lost.
	// After an error or a panic, this replica releases the slot and declines it for a while, so that others try: for four
	// RetryPeriods after the first failure, and for up to 64 after many. Required.
	OnAcquired func(ctx context.Context, slot int) error

	// OnRevoked is called when all work of a slot has ended, before it is released, with why: [ErrResigned] if it goes to
	// another, or the cause of the end of the caller's context, or why the lease was lost. Optional.
	OnRevoked func(slot int, cause error)
}

// maxSlots bounds the number of slots and of seats.
const maxSlots = 4096

// validate returns an error that names each field of cfg, with its defaults in place, that is out of its bounds, but for
// what Lease shares with the Config of an elector.
func (cfg SlotsConfig) validate() error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("SlotsConfig.%s %s", field, fmt.Sprintf(format, args...)))
		}
	}
	check(cfg.Slots > 0 && cfg.Slots <= maxSlots, "Slots", "is %d, must be 1 to %d", cfg.Slots, maxSlots)
	check(cfg.Seats > 0 && cfg.Seats <= maxSlots, "Seats", "is %d, must be 1 to %d", cfg.Seats, maxSlots)
	check(cfg.OnAcquired != nil, "OnAcquired", "is required")
	check(cfg.Lease.OnStartedLeading == nil, "Lease.OnStartedLeading", "must be nil: there is OnAcquired")
	check(cfg.Lease.OnStoppedLeading == nil, "Lease.OnStoppedLeading", "must be nil: there is OnRevoked")
	check(cfg.Lease.OnNewLeader == nil, "Lease.OnNewLeader", "must be nil")
	check(cfg.Lease.Sentinel == nil, "Lease.Sentinel", "must be nil: it is for leader election")
	_, ok := cfg.Lease.Store.(Lister)
	check(ok || cfg.Slots == 1 || cfg.Lease.Store == nil, "Lease.Store", "must be a Lister, or there can be one slot only")
	return errors.Join(errs...)
}

// NewSlots returns slots of which none is owned. The error names each field of cfg that is out of its bounds.
func NewSlots(cfg SlotsConfig) (*Slots, error) {
	if cfg.Slots == 0 {
		cfg.Slots = 64
	}
	if cfg.Seats == 0 {
		cfg.Seats = min(max(16, cfg.Slots), maxSlots)
	}
	// One elector of them all has a valid config, and its identity and incarnation are those of the replica.
	lease := cfg.Lease
	lease.OnStartedLeading = func(context.Context, *Leadership) error { return nil }
	lease = lease.withDefaults()
	if err := errors.Join(cfg.validate(), lease.validate("SlotsConfig.Lease")); err != nil {
		return nil, fmt.Errorf("leaderelect: new slots: %w", err)
	}
	first := newElector(lease, rand.Text())
	lister, _ := lease.Store.(Lister)
	s := &Slots{cfg: cfg, log: first.log, lease: lease}
	s.peers = &peers{
		lister: lister, prefix: lease.Key + "/", lease: first.cfg, log: first.log, period: first.pollPeriod,
		wake: make(chan struct{}, 1),
	}
	store := lease.Store
	if _, watches := store.(Watcher); !watches && cfg.Slots > 1 {
		store = told{store, s.peers} // one List for all, instead of a Get for each
	}
	s.seat = &seat{slots: s, store: store, incarnation: first.incarnation, number: nobody}
	for n := range cfg.Slots {
		s.slots = append(s.slots, newSlot(s, n, store, first.incarnation))
	}
	return s, nil
}

// Run shares the slots with other replicas until ctx ends. Then the slots that are owned drain and are released, as an
// Elector with ReleaseOnCancel does, and Run returns nil when all its goroutines have ended, or an error that wraps
// [ErrStoreStuck]. It is ErrRunning, at once, if it runs already. The error wraps [ErrMismatch] if the record under the key
// has another number of slots, or is the lease of an [Elector]. It may be run again after it has returned.
func (s *Slots) Run(ctx context.Context) error {
	s.mu.Lock()
	busy := s.running
	s.running = true
	s.mu.Unlock()
	if busy {
		return fmt.Errorf("leaderelect: run slots %q: %w", s.lease.Key, ErrRunning)
	}
	defer func() {
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}()

	if err := s.agree(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// The goroutines: one elector for each slot, one for the seat, one that reads who is there and plans, and one that
	// watches over the number of slots. They end after ctx, and Wait waits for them.
	var g wait.Group
	s.peers.forget()
	g.Start(ctx, func(ctx context.Context) error {
		err := s.keepAgreed(ctx)
		cancel(err) // nobody else may go on with a number that is not that of others
		return err
	})
	for _, one := range s.slots {
		if len(s.slots) > 1 {
			one.elector.revoke("") // until there is a plan
		}
		g.Start(ctx, one.elector.Run)
	}
	if len(s.slots) > 1 {
		g.Start(ctx, s.seat.run)
		g.Start(ctx, func(ctx context.Context) error { return s.peers.run(ctx, s.replan) })
	}
	return g.Wait()
}

// Slot returns the slot of a key. It depends on the key and the number of slots alone.
func (s *Slots) Slot(key string) int { return slotOf(key, len(s.slots)) }

// Owns reports whether this replica may work on key now. It reads the clock, as [Leadership.Err] does. False is also the
// answer for a slot that drains.
func (s *Slots) Owns(key string) bool {
	return s.slots[s.Slot(key)].owned()
}

// Begin begins work on key. It is false if the slot of key is not owned. The context ends with ctx, or when the slot is
// lost; it has the [Leadership] of the slot, and writes to a store.Store under it carry the term of the slot. The slot is
// not handed over before done was called, which must be soon after that context has ended, once or more often.
func (s *Slots) Begin(ctx context.Context, key string) (work context.Context, done func(), ok bool) {
	return s.slots[s.Slot(key)].begin(ctx)
}

// Owned returns the slots that this replica owns, in order: those that it may work on, and those that drain.
func (s *Slots) Owned() []int {
	var owned []int
	for _, one := range s.slots {
		if one.elector.IsLeader() {
			owned = append(owned, one.number)
		}
	}
	return owned
}

// Owner returns the replica that owns the slot of key, as was last seen: to send a request there, for example.
func (s *Slots) Owner(key string) (Leader, bool) { return s.slots[s.Slot(key)].elector.Leader() }

// Members returns the replicas that were there when the store was read last, in the order of their seats. With one slot
// it is empty.
func (s *Slots) Members() []Leader {
	var members []Leader
	for _, m := range s.peers.snapshot(s.cfg.Slots, s.cfg.Seats).members {
		members = append(members, m.leader)
	}
	return members
}

// Check returns an error if, for longer than LeaseDuration and the given tolerance, this replica needs help:
//
//   - An elector of a slot does, see [Elector.Check].
//   - A slot is to be released and work on it is not done, although DrainTimeout is over: was done not called?
//   - The number of slots cannot be read or recorded, so nothing has begun.
func (s *Slots) Check(tolerance time.Duration) error {
	s.mu.Lock()
	errs := []error{s.number.check(s.lease.LeaseDuration + tolerance)}
	s.mu.Unlock()
	for _, one := range s.slots {
		errs = append(errs, one.elector.Check(tolerance), one.check(tolerance))
	}
	return errors.Join(errs...)
}

// declined returns the slots that this replica declines.
func (s *Slots) declined() []int {
	var all []int
	for n, one := range s.slots {
		if one.declines() {
			all = append(all, n)
		}
	}
	return all
}

// replan has every slot wanted, or handed over, according to the plan.
func (s *Slots) replan() {
	now := s.peers.snapshot(s.cfg.Slots, s.cfg.Seats)
	seats := make([]int, 0, len(now.members))
	for _, m := range now.members {
		seats = append(seats, m.seat)
	}
	own := s.seat.held()
	if own == nobody || !slices.Contains(seats, own) {
		own = nobody - 1 // not the one who is to own anything
	}
	declined := make(map[[2]int]bool) // slot and seat
	for _, m := range now.members {
		slots := m.declines
		if m.seat == own {
			slots = s.declined() // which the record may not say yet
		}
		for _, n := range slots {
			declined[[2]int{n, m.seat}] = true
		}
	}
	declines := func(slot, seat int) bool { return declined[[2]int{slot, seat}] }
	for n, m := range plan(now.owners, seats, declines) {
		s.slots[n].want(m == own && now.free[n])
		if m == own {
			s.slots[n].elector.admit()
			continue
		}
		successor := ""
		if i := slices.Index(seats, m); i >= 0 {
			successor = now.members[i].leader.Incarnation
		}
		s.slots[n].elector.revoke(successor)
	}
}

func slotKey(prefix string, n int) string { return prefix + "slot/" + strconv.Itoa(n) }
func seatKey(prefix string, n int) string { return prefix + "seat/" + strconv.Itoa(n) }
