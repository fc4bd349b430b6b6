package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Source fills a cache, and goes on doing so until its context ends. *informer.Informer and *informer.Group are sources.
//
// If a source has a method Syncers() []informer.Syncer, as a Group does, those that have not synced in time are named one
// by one. If it has a method Check() error, [Manager.Check] asks it.
type Source interface {
	informer.Syncer

	// Run blocks until ctx ends. It is called once, unless the source fails and [ManagerConfig.OnFailure] starts it again.
	Run(ctx context.Context) error
}

// Runner is work that needs the sources. *Controller is one. If it has a method Check() error, [Manager.Check] asks it.
type Runner interface {
	// Name says what it is, for people.
	Name() string

	// Run blocks until ctx ends, and finishes in an orderly way then. It is called again after it has returned: for each
	// term, if only a leader runs it, and after a failure, if [ManagerConfig.OnFailure] says so. Of a leader it stops
	// at once when the leadership of ctx (leaderelect.FromContext) is lost.
	Run(ctx context.Context) error
}

// Manager starts and stops the parts of a program in the right order: sources, then, when all have synced, the controllers
// of every replica, the election, and, for as long as this process leads, the controllers of the leader; and back. Parts
// can be added and removed before Run and while it runs. The package documentation has diagrams, and says by number what
// it guarantees.
//
// Run is called once. All methods are safe for concurrent use.
type Manager struct {
	cfg      ManagerConfig
	logger   *slog.Logger
	elector  *leaderelect.Elector          // nil without an election
	slots    *leaderelect.Slots            // nil without slots
	election *part                         // the elector, or the slots, as a part; nil if there is neither
	exit     func(*leaderelect.Leadership) // ends the process
	late     chan struct{}                 // closed, while Run is under way, when the stop has lasted for too long

	mu sync.Mutex
	// mu guards the following, and what parts say. Invariants:
	//
	//  1. No two of parts have the same kind and name.
	//  2. A part is driven (its done is not nil) only by a stage, and by one at a time. When a stage is over, no part is
	//     driven by it.
	//  3. A part that is removed is in parts for as long as it is driven, and not after that.
	//  4. The gate of a source is open if and only if the source has synced once, or is not in parts.
	parts     []*part // sources and controllers, in the order in which they were added
	added     int     // parts so far: the number of the next one
	first     int     // parts that were added before Run
	hooks     []stopHook
	addErrors []error                 // of the methods that add, before Run
	stages    [stageKinds]*stage      // those that take parts; nil while there is none
	at        Stage                   // does not know of a stop
	stopping  context.Context         // ends when the stop begins; nil before Run
	stop      context.CancelCauseFunc // begins the stop
	stopBegan time.Time               // is noted when somebody first asks for it
	leading   chan struct{}           // closed when the work of the last term and OnStoppedLeading have returned; nil before the first
	inSlots   map[int]*slotWork       // by slot: from its acquisition until its OnRevoked has returned
	left      []leftover              // had not returned at that limit
	errs      []error                 // what went wrong, in the order in which it did
}

// ManagerConfig is the configuration of a [Manager]. The zero value is ready for use.
type ManagerConfig struct {
	// Election makes the controllers run only while this process leads. The manager sets OnStartedLeading, which must be
	// nil, and ReleaseOnCancel; the other callbacks are called as they are. Nil means that this process always leads.
	//
	// Three fields have other defaults here, and in Slots.Lease. Logger defaults to that of the manager. DrainTimeout
	// defaults to StopTimeout and 3 s, since the lease is kept for the drain and for the stop hooks. OnStepDownOverrun, which
	// is called when a controller goes on although another may lead, defaults to an error in the log that names the
	// controller, and to the end of the process: see [leaderelect.ExitOnOverrun]. With Slots, the error names the lease of
	// the slot in which work goes on. Controllers, or work in a slot, that were told to end less than a second before,
	// because the process was suspended, have the rest of that second. If all have returned by then, the process goes on.
	Election *leaderelect.Config

	// Slots makes the controllers share their keys with those of other replicas: each key is reconciled by the replica that
	// owns its slot, and every replica owns some. It takes the place of Election. AddController then takes controllers that
	// have a method Acquired(slot int), such as *Sharded, and they run for as long as the manager does; all others are for
	// AddToEveryReplica. When a slot was acquired the manager calls Acquired of each, and then OnAcquired if it is set; none of
	// them if the slot is lost before. An OnRevoked that goes on is work in the slot for OnStepDownOverrun.
	Slots *leaderelect.SlotsConfig

	// SyncTimeout is the longest time that a source may take to sync, from its start. One that takes longer has failed.
	// Defaults to 2 min. Negative is no limit.
	SyncTimeout time.Duration

	// StopTimeout limits the whole stop, from its beginning. How long the controllers drain is in Config.DrainTimeout of
	// each, and should be less. At the limit the context of the stop hooks ends, but not before they have had 3 s. A part
	// that has not returned 3 s after the limit, and 3 s after it was told to end, is left behind, and Run returns an error
	// that wraps [ErrStopTimeout] and names it; the election has 6 s. Defaults to 1 min. Negative is no limit.
	StopTimeout time.Duration

	// OnFailure decides what becomes of a part that has failed: that has returned an error or panicked, has returned
	// before it was told to, or is a source that has not synced in time. It is called without locks, and for several parts
	// at once. If it panics, everything is stopped. Defaults to [StopAll]; [RestartWithBackoff] makes another.
	OnFailure func(PartFailure) Reaction

	// HealthyAfter is the time for which a part must run, and a source have synced, before it fails, for that failure to
	// count as a first one. Defaults to 1 min.
	HealthyAfter time.Duration

	// Logger receives the stages, and failures that Run does not return. Defaults to slog.Default().
	Logger *slog.Logger
}

// NewManager returns a manager of nothing. It returns an error if a field of cfg is out of its bounds.
func NewManager(cfg ManagerConfig) (*Manager, error) {
	if err := notNegative("ManagerConfig.HealthyAfter", cfg.HealthyAfter); err != nil {
		return nil, fmt.Errorf("controller: new manager: %w", err)
	}
	cfg.SyncTimeout = cmp.Or(cfg.SyncTimeout, 2*time.Minute)
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, time.Minute)
	cfg.HealthyAfter = cmp.Or(cfg.HealthyAfter, time.Minute)
	if cfg.OnFailure == nil {
		cfg.OnFailure = func(PartFailure) Reaction { return StopAll() }
	}
	m := &Manager{
		cfg: cfg, logger: cmp.Or(cfg.Logger, slog.Default()), exit: leaderelect.ExitOnOverrun, late: make(chan struct{}),
		inSlots: map[int]*slotWork{},
	}
	var err error
	switch {
	case cfg.Election != nil && cfg.Slots != nil:
		err = errors.New("controller: new manager: ManagerConfig.Slots is set beside ManagerConfig.Election")
	case cfg.Election != nil:
		err = m.elect(*cfg.Election)
	case cfg.Slots != nil:
		err = m.share(*cfg.Slots)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// elect makes the elector of m.
func (m *Manager) elect(cfg leaderelect.Config) (err error) {
	if cfg.OnStartedLeading != nil {
		return errors.New("controller: new manager: ManagerConfig.Election.OnStartedLeading must be nil: add a controller")
	}
	onStopped := cfg.OnStoppedLeading
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
		ended := make(chan struct{})
		if onStopped == nil {
			defer close(ended)
		}
		m.mu.Lock()
		m.leading = ended
		m.mu.Unlock()
		m.lead(ctx)
		m.awaitLeft() // the lease is released after this
		return nil
	}
	if onStopped != nil {
		cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
			m.mu.Lock()
			ended := m.leading
			m.mu.Unlock()
			defer close(ended) // it is a part of the work: overrun ends the process if it goes on
			onStopped(l, cause)
		}
	}
	cfg.ReleaseOnCancel = true
	m.setDefaults(&cfg)
	if m.elector, err = leaderelect.New(cfg); err != nil {
		return fmt.Errorf("controller: new manager: ManagerConfig.Election: %w", err)
	}
	m.election = newElectionPart(cfg.Key, m.elector)
	return nil
}

// setDefaults sets what a manager makes of fields of lease that are not set.
func (m *Manager) setDefaults(lease *leaderelect.Config) {
	lease.Logger = cmp.Or(lease.Logger, m.logger)
	if lease.DrainTimeout == 0 && m.cfg.StopTimeout >= 0 {
		lease.DrainTimeout = m.cfg.StopTimeout + stopGrace
	}
	if lease.OnStepDownOverrun == nil {
		lease.OnStepDownOverrun = m.overrun
	}
}

// AddSource adds a source. Those that are there when Run begins start together, before all else; one that is added later
// starts at once. All stop together, after all else.
//
// It returns an error, and adds nothing, if a source of this name is there ([ErrPartExists]), or the manager stops or has
// ended ([ErrStopped]). An error before Run is returned by Run too, which then starts nothing: so a program that adds all
// parts at its beginning need not look at it. The same is true of the other methods that add.
func (m *Manager) AddSource(s Source) error { return m.add(newSourcePart(s)) }

// AddController adds a controller that runs only while this process leads, which without an election is always. Those that
// are there when a term begins start together; one that is added while this process leads starts at once, when the sources
// that were added before it have synced.
//
// Errors are those of AddSource; controllers have names of their own, which they share with those of every replica. With
// [ManagerConfig.Slots] it is [ErrNotSharded] for a controller that knows nothing of slots.
func (m *Manager) AddController(r Runner) error { return m.add(newRunnerPart(r, false)) }

// AddToEveryReplica adds a controller that needs no leadership: it runs in a standby as in the leader, from the time when
// the sources have synced until the stop begins. In everything else it is like one of AddController.
func (m *Manager) AddToEveryReplica(r Runner) error { return m.add(newRunnerPart(r, true)) }

// AddStopHook adds something to do after the controllers have ended and before the lease is released: the last word of a
// leader. The hooks are called one after the other, the one that was added last first. They are not called if this process
// does not lead when it stops, or has lost the lease: then another may lead already. Nor are they called if a controller,
// or a hook before, has not returned in time. Their context has the values of that of the controllers. It ends at the limit
// of the stop (StopTimeout), or when the lease is lost. The name stands in errors.
//
// Errors are those of AddSource; hooks have names of their own.
func (m *Manager) AddStopHook(name string, hook func(ctx context.Context) error) error {
	if hook == nil {
		panic("controller: AddStopHook called with nil")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hooks {
		if h.name == name {
			return m.refuseLocked("stop hook", name, ErrPartExists)
		}
	}
	if m.stoppingLocked() {
		return m.refuseLocked("stop hook", name, ErrStopped)
	}
	m.hooks = append(m.hooks, stopHook{name, hook})
	return nil
}

// RemoveSource stops the source of the given name and returns when it has ended. What uses it is to be removed before:
// its cache stands still, and a controller that watches it cannot begin another Run.
//
// It returns what the Run of the source has returned, if that is news; [ErrNoPart] if there is none of this name; or the
// cause of ctx if that ends first. Then the removal goes on: what the source returns in the end is logged, and its name is
// free when it has ended. With a ctx that has ended already, RemoveSource begins the removal and waits for nothing. A part
// that removes itself must do so, or it waits for itself.
func (m *Manager) RemoveSource(ctx context.Context, name string) error {
	return m.remove(ctx, PartSource, name)
}

// RemoveController stops the controller of the given name, one of every replica or not, as the stop of the manager would
// do, but it alone: a [Controller] removes its handlers, drains its queue and waits for the work in flight. In everything
// else it is like RemoveSource.
func (m *Manager) RemoveController(ctx context.Context, name string) error {
	return m.remove(ctx, PartController, name)
}

// Elector returns the elector of the manager, to ask who leads or to resign, or nil if there is no election. It is run by
// the manager alone.
func (m *Manager) Elector() *leaderelect.Elector { return m.elector }

// Slots returns the slots of the manager, for [NewSharded] and to ask who owns what, or nil if there are none. They are
// run by the manager alone.
func (m *Manager) Slots() *leaderelect.Slots { return m.slots }

// add adds p, and starts it if its stage has begun.
func (m *Manager) add(p *part) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.findLocked(p.kind, p.name) != nil {
		return m.refuseLocked(p.kind, p.name, ErrPartExists)
	}
	if m.stoppingLocked() {
		return m.refuseLocked(p.kind, p.name, ErrStopped)
	}
	if m.slots != nil && p.stage == leaderStage && p.acquired == nil {
		return m.refuseLocked(p.kind, p.name, ErrNotSharded)
	}
	p.number = m.added
	m.added++
	m.parts = append(m.parts, p)
	if s := m.stages[p.stage]; s != nil {
		s.startLocked(p)
	}
	return nil
}

// refuseLocked returns the error of a part that cannot be added.
func (m *Manager) refuseLocked(kind PartKind, name string, cause error) error {
	err := fmt.Errorf("controller: add %s %q: %w", kind, name, cause)
	if m.stopping == nil {
		m.addErrors = append(m.addErrors, err)
	}
	return err
}

// remove ends the part of the given kind and name, and waits for its end.
func (m *Manager) remove(ctx context.Context, kind PartKind, name string) error {
	m.mu.Lock()
	p := m.findLocked(kind, name)
	if p == nil {
		m.mu.Unlock()
		return fmt.Errorf("controller: remove %s %q: %w", kind, name, ErrNoPart)
	}
	done, cancel := p.done, p.cancel
	p.removed = true
	p.removers++
	p.tellLocked(time.Now())
	if done == nil {
		m.dropLocked(p)
	}
	m.mu.Unlock()
	if done == nil {
		return nil
	}

	cancel(errRemoved)
	select {
	case <-done:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.removers--
	err := p.result
	if p.done != nil {
		err = fmt.Errorf("it has not ended yet: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("controller: remove %s %q: %w", kind, name, err)
	}
	return nil
}

// findLocked returns the part of the given kind and name, or nil.
func (m *Manager) findLocked(kind PartKind, name string) *part {
	for _, p := range m.parts {
		if p.kind == kind && p.name == name {
			return p
		}
	}
	return nil
}

// stoppingLocked tells whether the stop has begun.
func (m *Manager) stoppingLocked() bool { return m.stopping != nil && m.stopping.Err() != nil }
