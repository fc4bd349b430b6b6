package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/wait"
)

// Manager starts the parts of a program in the right order, and stops them in reverse. Parts can be added and removed before and
// during Run. The package documentation has diagrams and numbered guarantees.
//
// Call Run once. All methods are safe for concurrent use.
type Manager struct {
	cfg      Config
	logger   *slog.Logger
	elector  *leaderelect.Elector          // nil without an election
	slots    *shard.Slots                  // nil without slots
	election *part                         // the elector, or the slots, as a part; nil if there is neither
	exit     func(*leaderelect.Leadership) // ends the process
	late     chan struct{}                 // closed, during Run, when the stop has taken too long

	mu sync.Mutex
	// mu guards the following, and the fields of part that say so. Invariants:
	//
	//  1. No two added parts have the same kind and name, and no two parts have the same value.
	//  2. A part is driven (its done is not nil) only by a stage, and by one at a time. When a stage is over, it drives no part.
	//  3. A part that is removed is in parts for as long as it is driven, and not after that.
	//  4. The gate of a part is closed only if the part is in parts, and has not started, or synced if it is an informer.
	//  5. An informer counts in needs the parts that list it in informers, and itself if it was added. It is removed when needs reaches zero.
	parts     []*part                 // in the order in which they were added; the informers of a part come before it
	added     int                     // parts added so far, which is the number of the next one
	first     int                     // parts that were added before Run
	stages    [stages]*stage          // that run
	state     string                  // of m, apart from a stop; "" before Run
	stopping  context.Context         // ends when the stop begins; nil before Run
	stop      context.CancelCauseFunc // begins the stop
	stopBegan time.Time               // set when it is first needed
	leading   chan struct{}           // closed when the work of the last term and OnStoppedLeading have returned; nil before the first
	inSlots   map[int]*slotWork       // by slot: from its acquisition until its OnRevoked has returned
	left      []leftover              // what had not returned at the limit of the stop
	errs      []error                 // the errors of Run, in the order in which they occurred
}

// Config configures a [Manager]. The zero value is ready for use.
type Config struct {
	// Election makes the parts of stage Leading run only while this process leads. The manager sets OnStartedLeading, which
	// must be nil, and ReleaseOnCancel. It leaves the other callbacks unchanged. Nil means that this process always leads.
	//
	// Three fields have different defaults here and in Shards.Lease:
	//
	//   - Logger defaults to that of the manager.
	//   - DrainTimeout defaults to StopTimeout plus 3 s, since the manager keeps the lease during the drain and BeforeRelease. If
	//     StopTimeout is disabled, so is DrainTimeout.
	//   - OnStepDownOverrun is called when a part continues although another process may lead. By default it logs an error that
	//     names the part, and ends the process: see [leaderelect.ExitOnOverrun]. With Shards, the error names the lease of the
	//     slot in which work continues. After a suspend, work has at least one second to return after its context has ended. If
	//     all of it returns in that second, the process continues.
	Election *leaderelect.Config

	// Shards makes the controllers share their keys with those of other replicas: the replica that owns the slot of a key reconciles it,
	// and every replica owns some. It takes the place of Election. A part of stage Leading must then be a [Sharer], as
	// *controller.Controller is. Such a part runs for as long as the manager does. Add all other parts to stage Always. Add calls Share.
	// When this replica has acquired a slot, the manager calls CatchUp of each part, then Acquired of each, and then OnAcquired if it is
	// set. It calls none of the last two if the slot is lost first. For OnStepDownOverrun, an OnRevoked that
	// has not returned counts as work in the slot.
	Shards *shard.Config

	// BeforeRelease is called after all parts of stages Leading and Always have ended, before the manager releases the lease. If
	// this process does not lead or has lost the lease, another process may lead already, so the manager does not call
	// BeforeRelease. Nor does it call BeforeRelease if a part has not returned in time. Without Election, it is called in each
	// stop after the parts have run. The context has the values of the context of the parts. It ends at the limit of the stop
	// (StopTimeout), or when the lease is lost; after a resignation, it ends StopTimeout after the call. If BeforeRelease returns an
	// error or panics, everything stops, and Run returns the error.
	BeforeRelease func(ctx context.Context) error

	// Restart is the backoff after which a part that has failed runs again: after Restart.Delay(n-1) when it has failed n times in a row.
	// A part has failed if it returned an error, panicked, or returned before its context ended. An informer has also failed if it has
	// not synced in time. The manager logs such a failure. Without a Restart, which is the default, the first failure stops everything, and
	// Run returns it. If another field is set, Duration must be positive. If Steps is set, the failure of the last step does. So does an error that wraps informer.ErrEnded: an
	// informer that has ended cannot run again. It needs no restart, since it retries by itself when its source fails.
	//
	// A part of stage Leading that waits for its restart when another term begins starts with that term. A part that the others can do
	// without calls [Manager.Remove] when it fails, with a context that has ended.
	Restart wait.Backoff

	// SyncTimeout limits the time that an informer takes to sync, from its start. An informer that takes longer has failed. It holds for all
	// informers, whatever the SyncTimeout of a controller is: a controller starts after its informers have synced. Defaults to 2 min. A
	// negative value disables the limit.
	SyncTimeout time.Duration

	// StopTimeout limits the whole stop. The DrainTimeout of each controller should be shorter. At the limit, the context of
	// BeforeRelease ends, but BeforeRelease has at least 3 s, unless the lease is lost first. If a part has not returned 3 s
	// after the limit, and 3 s after its context has ended, the manager leaves it behind: Run returns an error that wraps
	// [ErrStopTimeout] and names the part. The election has 6 s. Defaults to 1 min. A negative value disables the limit.
	StopTimeout time.Duration

	// HealthyAfter is the time after which the next failure of a part counts as a first failure again. The time of a part
	// counts while it runs, and that of an informer while it is synced. Defaults to 1 min.
	HealthyAfter time.Duration

	// Logger receives a line at the start that says what runs, one at the end that says why it has stopped and what was left behind, the stages
	// at level Debug, and failures that Run does not return. Defaults to slog.Default().
	Logger *slog.Logger
}

// These errors report why a part could not be added or removed, or has failed.
var (
	// ErrExists reports that a part cannot be added because another part has its name, or because it was added before and has not been
	// removed, or has not ended since.
	ErrExists = errors.New("part exists already")

	// ErrNoPart reports that no part of the given name was added.
	ErrNoPart = errors.New("no such part")

	// ErrStopped reports that a part cannot be added because the stop has begun.
	ErrStopped = errors.New("the stop has begun")

	// ErrEnded reports that a part returned without an error before its context ended.
	ErrEnded = errors.New("ended by itself")

	// ErrSyncTimeout reports that an informer has not synced within [Config].SyncTimeout.
	ErrSyncTimeout = errors.New("not synced in time")

	// ErrStopTimeout reports that the limit of the stop has passed. The error of a Run that left a part behind wraps it,
	// and so does the cause of the context of BeforeRelease.
	ErrStopTimeout = errors.New("not stopped in time")

	errUsed    = errors.New("manager: run: the manager has run already: make a new one")
	errRemoved = errors.New("manager: the part was removed") // the cause with which the context of a removed part ends
)

// New returns a manager of the given parts. It returns an error if a field of cfg is out of bounds, or if a part cannot be
// added: see [Manager.Add].
func New(cfg Config, parts ...Part) (*Manager, error) {
	if cfg.HealthyAfter < 0 {
		return nil, fmt.Errorf("manager: new: Config.HealthyAfter is %v, must not be negative", cfg.HealthyAfter)
	}
	if cfg.Restart.Duration <= 0 && !cfg.Restart.IsZero() {
		return nil, fmt.Errorf("manager: new: Config.Restart.Duration is %v, must be positive if another field of Config.Restart is set",
			cfg.Restart.Duration)
	}
	cfg.SyncTimeout = cmp.Or(cfg.SyncTimeout, 2*time.Minute)
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, time.Minute)
	cfg.HealthyAfter = cmp.Or(cfg.HealthyAfter, time.Minute)
	m := &Manager{
		cfg: cfg, logger: cmp.Or(cfg.Logger, slog.Default()), exit: leaderelect.ExitOnOverrun, late: make(chan struct{}),
		inSlots: map[int]*slotWork{},
	}
	var err error
	switch {
	case cfg.Election != nil && cfg.Shards != nil:
		err = errors.New("manager: new: Config.Shards is set beside Config.Election")
	case cfg.Election != nil:
		err = m.elect(*cfg.Election)
	case cfg.Shards != nil:
		err = m.share(*cfg.Shards)
	}
	if err != nil {
		return nil, err
	}
	if err := m.Add(parts...); err != nil {
		return nil, err
	}
	return m, nil
}

// elect makes the elector of m.
func (m *Manager) elect(cfg leaderelect.Config) (err error) {
	if cfg.OnStartedLeading != nil {
		return errors.New("manager: new: Config.Election.OnStartedLeading must be nil: add a part")
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
		m.awaitLeft() // the elector releases the lease after this
		return nil
	}
	if onStopped != nil {
		cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
			m.mu.Lock()
			ended := m.leading
			m.mu.Unlock()
			defer close(ended) // it is part of the work: overrun ends the process if it does not return
			onStopped(l, cause)
		}
	}
	cfg.ReleaseOnCancel = true
	m.setDefaults(&cfg)
	if m.elector, err = leaderelect.New(cfg); err != nil {
		return fmt.Errorf("manager: new: Config.Election: %w", err)
	}
	m.election = newElectionPart(cfg.Key, m.elector)
	return nil
}

// setDefaults sets the manager's defaults for unset fields of lease.
func (m *Manager) setDefaults(lease *leaderelect.Config) {
	lease.Logger = cmp.Or(lease.Logger, m.logger)
	if lease.DrainTimeout == 0 {
		lease.DrainTimeout = math.MaxInt64 // and not negative: then Check of the slots would report a drain after a LeaseDuration
		if m.cfg.StopTimeout >= 0 {
			lease.DrainTimeout = m.cfg.StopTimeout + min(stopGrace, math.MaxInt64-m.cfg.StopTimeout)
		}
	}
	if lease.OnStepDownOverrun == nil {
		lease.OnStepDownOverrun = m.overrun
	}
}

// Elector returns the elector of the manager, or nil if there is no election. Use it to find the leader, or to resign. Only the manager
// runs it.
func (m *Manager) Elector() *leaderelect.Elector { return m.elector }

// Slots returns the slots of the manager, or nil if there are none. Use them to find the owners of slots. Only the manager runs them.
func (m *Manager) Slots() *shard.Slots { return m.slots }
