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

// Source fills a cache, and goes on doing so until its context ends. *informer.Informer is one.
type Source interface {
	informer.Syncer

	// Run blocks until ctx ends. It is called once.
	Run(ctx context.Context) error
}

// Runner is work that only a leader does. *Controller is one.
type Runner interface {
	// Name says what it is, for people.
	Name() string

	// Run blocks until ctx ends, and finishes in an orderly way then. With an election it is called once for each term,
	// and stops at once when the leadership of ctx (leaderelect.FromContext) is lost.
	Run(ctx context.Context) error
}

// Manager starts and stops the parts of a program in the right order: sources, then, when all have synced, the election,
// then, for as long as this process leads, the controllers; and back. The package documentation has a diagram.
//
// Parts are added before Run, which is called once. The methods that add are not safe for concurrent use.
type Manager struct {
	cfg     ManagerConfig
	logger  *slog.Logger
	elector *leaderelect.Elector // nil without an election

	sources     []Source
	controllers []Runner
	hooks       []stopHook

	mu sync.Mutex
	// mu guards the following.
	used bool
	errs []error // what went wrong, in the order in which it did

	// Set once by Run, before it starts anything.
	stopping context.Context         // ends when the stop begins
	stop     context.CancelCauseFunc // begins the stop
}

// ManagerConfig is the configuration of a [Manager]. The zero value is ready for use.
type ManagerConfig struct {
	// Election makes the controllers run only while this process leads. The manager sets OnStartedLeading, which must be
	// nil, and ReleaseOnCancel; the other callbacks are called as they are. Nil means that this process always leads.
	Election *leaderelect.Config

	// SyncTimeout is the longest time that the sources may take to sync. Defaults to 2 min.
	SyncTimeout time.Duration

	// StopTimeout is the longest time that the stop hooks may take, all together. Then their context ends. Defaults to
	// 30 s. How long the controllers may take is in Config.DrainTimeout of each.
	StopTimeout time.Duration

	// Logger receives the stages. Defaults to slog.Default().
	Logger *slog.Logger

	_ [0]func() // not comparable, so that a field of any type can be added
}

// NewManager returns a manager of nothing. It returns an error if a field of cfg is out of its bounds.
func NewManager(cfg ManagerConfig) (*Manager, error) {
	if err := cmp.Or(notNegative("SyncTimeout", cfg.SyncTimeout), notNegative("StopTimeout", cfg.StopTimeout)); err != nil {
		return nil, fmt.Errorf("controller: new manager: ManagerConfig.%w", err)
	}
	cfg.SyncTimeout = cmp.Or(cfg.SyncTimeout, 2*time.Minute)
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, 30*time.Second)
	m := &Manager{cfg: cfg, logger: cmp.Or(cfg.Logger, slog.Default())}
	if cfg.Election == nil {
		return m, nil
	}
	if cfg.Election.OnStartedLeading != nil {
		return nil, errors.New("controller: new manager: ManagerConfig.Election.OnStartedLeading: is not nil: add a controller")
	}
	election := *cfg.Election
	election.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
		m.lead(ctx)
		return nil
	}
	election.ReleaseOnCancel = true
	var err error
	if m.elector, err = leaderelect.New(election); err != nil {
		return nil, fmt.Errorf("controller: new manager: ManagerConfig.Election: %w", err)
	}
	return m, nil
}

// AddSource adds a source. The sources start together, before all else, and stop together, after all else. AddSource
// panics after Run was called.
func (m *Manager) AddSource(s Source) {
	m.checkUnused("AddSource")
	m.sources = append(m.sources, s)
}

// AddController adds a controller. The controllers start together, when this process begins to lead, and stop together.
// AddController panics after Run was called.
func (m *Manager) AddController(r Runner) {
	m.checkUnused("AddController")
	m.controllers = append(m.controllers, r)
}

// AddStopHook adds something to do after the controllers have ended and before the lease is released: the last word of a
// leader. The hooks are called one after the other, the one that was added last first. They are not called if this process
// does not lead when it stops, or has lost the lease: then another may lead already. Their context has the values of that
// of the controllers, and ends after StopTimeout, or when the lease is lost. The name stands in errors. AddStopHook panics
// after Run was called.
func (m *Manager) AddStopHook(name string, hook func(ctx context.Context) error) {
	m.checkUnused("AddStopHook")
	m.hooks = append(m.hooks, stopHook{name, hook})
}

type stopHook struct {
	name string
	run  func(context.Context) error
}

func (m *Manager) checkUnused(method string) {
	m.mu.Lock()
	used := m.used
	m.mu.Unlock()
	if used {
		panic("controller: " + method + " called after Run")
	}
}
