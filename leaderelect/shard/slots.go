package shard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Slots divides keys among replicas. Each key belongs to one of a fixed number of slots, and each slot is a lease that one
// replica leads at a time. With one slot, Slots is leader election.
//
// Work on a key begins with [Slots.Begin], which reports whether this replica owns the slot of the key. All methods may be called
// concurrently, even while Run is not running.
type Slots struct {
	cfg         Config // with defaults, except those of Lease
	log         *slog.Logger
	timing      lease.Timing
	incarnation string // shared by all electors of this replica
	slots       []*slot
	membership  *membership
	peers       *peers

	mu sync.Mutex
	// mu guards the following.
	running bool
	number  agreement
}

// New returns slots that own nothing yet. The error names each field of cfg that is out of its bounds.
func New(cfg Config) (*Slots, error) {
	cfg = cfg.withDefaults()
	s := &Slots{cfg: cfg, incarnation: rand.Text()}

	// This elector is only made to check the Config that all electors share. Its link has the defaults.
	common := &lease.Link{Incarnation: s.incarnation}
	shared := cfg.lease()
	shared.Link = common
	_, err := leaderelect.New(shared)
	if err != nil {
		err = fmt.Errorf("Config.Lease: %w", err)
	}
	if err := problems.Join(cfg.validate(), err); err != nil {
		return nil, fmt.Errorf("shard: new: %w", err)
	}
	s.log, s.timing = common.Log, common.Timing
	lister, _ := cfg.Lease.Store.(Lister)
	s.peers = &peers{
		lister: lister, key: cfg.Lease.Key, timing: s.timing, log: s.log, period: common.Poll, wake: make(chan struct{}, 1),
	}
	if _, watches := cfg.Lease.Store.(leaderelect.Watcher); !watches && cfg.Slots > 1 {
		shared.Store = listed{cfg.Lease.Store, s.peers} // one List for all slots, instead of one Get per slot
	}
	s.membership = &membership{slots: s, lease: shared}
	for n := range cfg.Slots {
		one, err := newSlot(s, n, shared)
		if err != nil {
			return nil, fmt.Errorf("shard: new: slot %d: %w", n, err)
		}
		s.slots = append(s.slots, one)
	}
	return s, nil
}

// Run shares the slots with other replicas until ctx ends. Then it drains and releases the slots that it owns, and
// returns nil after all its goroutines have ended. Run may be called again after it has returned. Its errors wrap:
//
//   - leaderelect.ErrRunning, at once, if the slots run already
//   - leaderelect.ErrMismatch, if the record under the key has another number of slots or is the lease of an Elector
//   - the error of the store, at once, if the store has marked it with retry.Permanent before anything has worked: see
//     leaderelect.Elector.Run
//   - leaderelect.ErrStoreStuck, if calls of the store did not return
func (s *Slots) Run(ctx context.Context) error {
	s.mu.Lock()
	busy := s.running
	s.running = true
	s.mu.Unlock()
	if busy {
		return fmt.Errorf("shard: run %q: %w", s.cfg.Lease.Key, leaderelect.ErrRunning)
	}
	defer func() {
		s.mu.Lock()
		s.running, s.number.failing = false, time.Time{} // nothing fails between two runs
		s.mu.Unlock()
	}()

	if err := s.agree(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// These goroutines run one elector per slot and one for the membership. One more reads the records and plans, and one
	// confirms the number of slots. They end after ctx, and Wait waits for them.
	var g wait.Group
	s.peers.forget()
	g.Start(ctx, func(ctx context.Context) error {
		err := s.keepAgreed(ctx)
		cancel(err) // no slot may continue after a mismatch
		return err
	})
	for _, one := range s.slots {
		if len(s.slots) > 1 {
			one.link.Revoke("") // until there is a plan
		}
		g.Start(ctx, one.elector.Run)
	}
	if len(s.slots) > 1 {
		g.Start(ctx, func(ctx context.Context) error {
			err := s.membership.run(ctx)
			cancel(err) // no slot may wait for a membership that this replica cannot have
			return err
		})
		g.Start(ctx, func(ctx context.Context) error { return s.peers.run(ctx, s.replan) })
	}
	return g.Wait()
}

// Slot returns the slot of a key. It depends only on the key and the number of slots.
func (s *Slots) Slot(key string) int { return slotOf(key, len(s.slots)) }

// HashRange returns the hashes of the keys of a slot: from the first number on, and less than the second. The hash of a key is the first 32 bits
// of its MD5, in big-endian order. So a database can select the rows of a slot: see informer.RangeLister.
func (s *Slots) HashRange(slot int) (from, to uint64) { return hashRange(slot, len(s.slots)) }

// Begin begins work on key. It returns false if this replica does not own the slot of key, or the slot drains. Like
// leaderelect.Leadership.Err, it reads the clock. The context ends when ctx ends,
// the slot is lost, or done is called. It carries the leaderelect.Leadership of the slot, so writes to a store.Store under it carry the
// term of the slot. The slot is not handed over until done is called. Call done soon after the context has ended. Further
// calls of done have no effect.
func (s *Slots) Begin(ctx context.Context, key string) (work context.Context, done func(), ok bool) {
	return s.slots[s.Slot(key)].begin(ctx)
}

// Owned returns the slots that this replica owns, in ascending order, including those that it prepares and those that drain.
func (s *Slots) Owned() []int {
	var owned []int
	for _, one := range s.slots {
		if one.elector.IsLeader() {
			owned = append(owned, one.number)
		}
	}
	return owned
}

// Owner returns the replica that owned the slot of key when its record was last read, or false if there was none. You can
// send a request there, for example.
func (s *Slots) Owner(key string) (leaderelect.Leader, bool) {
	return s.slots[s.Slot(key)].elector.Leader()
}

// Owners returns the replica that owned each slot when its record was last read, by the number of the slot. A slot without an
// owner has the zero Leader.
func (s *Slots) Owners() []leaderelect.Leader {
	owners := make([]leaderelect.Leader, len(s.slots))
	for n, one := range s.slots {
		owners[n], _ = one.elector.Leader()
	}
	return owners
}

// Members returns the replicas that took part when the store was last read, in the order of their member numbers. With
// one slot it is empty.
func (s *Slots) Members() []leaderelect.Leader {
	var members []leaderelect.Leader
	for _, m := range s.peers.snapshot(s.cfg.Slots, s.cfg.Members).members {
		members = append(members, m.leader)
	}
	return members
}

// Check returns an error if one of these problems lasts for longer than LeaseDuration. The last two are those of a
// Run in progress.
//
//   - A slot has a problem that leaderelect.Elector.Check reports for a leadership.
//   - DrainTimeout has passed, or is negative, and a slot waits for work whose done was not called.
//   - The store has never answered a read, or answers reads and no writes. It is one error for all slots.
//   - The number of slots cannot be read or recorded.
//
// Check is for a liveness probe.
func (s *Slots) Check() error {
	s.mu.Lock()
	failing := s.number.check(s.timing.LeaseDuration)
	s.mu.Unlock()
	errs := []error{failing}
	for _, one := range s.slots {
		own, store := one.link.Check()
		if own != nil {
			own = fmt.Errorf("slot %d: %w", one.number, own)
		}
		failing = cmp.Or(failing, store)
		errs = append(errs, own, one.stuck())
	}
	errs[0] = failing
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("shard: check %q: %w", s.cfg.Lease.Key, err)
	}
	return nil
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

// replan computes the plan, and admits or revokes every slot accordingly.
func (s *Slots) replan() {
	now := s.peers.snapshot(s.cfg.Slots, s.cfg.Members)
	numbers := make([]int, 0, len(now.members))
	own := nobody - 1 // if this replica is no member, it must not match a slot that the plan gives to nobody
	for _, m := range now.members {
		numbers = append(numbers, m.number)
		if m.leader.Incarnation == s.incarnation {
			own = m.number // until others see that the membership is lost, they leave the slots to this replica
		}
	}
	declined := make(map[[2]int]bool) // slot and member
	for _, m := range now.members {
		slots := m.declines
		if m.number == own {
			slots = s.declined() // the record may not have them yet
		}
		for _, n := range slots {
			declined[[2]int{n, m.number}] = true
		}
	}
	declines := func(slot, member int) bool { return declined[[2]int{slot, member}] }
	for n, m := range plan(now.owners, numbers, declines) {
		s.slots[n].want(m == own && now.free[n])
		if m == own {
			s.slots[n].link.Admit()
			continue
		}
		successor := ""
		if i := slices.Index(numbers, m); i >= 0 {
			successor = now.members[i].leader.Incarnation
		}
		s.slots[n].link.Revoke(successor)
	}
}
