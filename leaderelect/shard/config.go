package shard

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Config configures [Slots]. Lease.Store, Lease.Key, and OnAcquired are required.
type Config struct {
	// Lease configures the leases of all slots: Store, Key, Identity, durations, Metadata, and so on. The records are
	// named after Key: slot 7 is Key/slot/7, and member 2 is Key/member/2. Store must be a [Lister], unless there is only
	// one slot. OnStartedLeading, OnStoppedLeading, OnNewLeader, and Sessions must be nil, so Fenced must be false.
	// OnStepDownOverrun is called for every slot, and the Hooks for every slot and for the membership, concurrently.
	// ReleaseOnCancel is always on.
	Lease leaderelect.Config

	// Slots is the number of slots. It determines the slot of each key, so all replicas must have the same number. The
	// number is recorded under Lease.Key. If the record has another number, Run returns an error that wraps
	// leaderelect.ErrMismatch. To change the number, stop all replicas, delete that record, and start the replicas with
	// the new number. Choose a multiple of the greatest number of replicas. At most 4096. Defaults to 64.
	Slots int

	// Members is the maximum number of replicas that take part at a time. Further replicas wait. At most 4096. Defaults
	// to 16, or to Slots if Slots is greater.
	Members int

	// Prepare is called after the lease of a slot was acquired, before Begin succeeds for its keys. It makes this replica ready for
	// them, such as by waiting until its caches have what the former owner has written: see controller.Controller.Prepare. ctx carries the
	// leaderelect.Leadership of the slot. It ends after a LeaseDuration, and earlier if the slot is lost or has to be handed over. After an
	// error or a panic, or if ctx has ended, whatever Prepare returns, this replica releases the slot and declines it, as after an error of
	// OnAcquired. Several slots are prepared concurrently. Optional.
	Prepare func(ctx context.Context, slot int) error

	// OnAcquired is called after a slot was acquired and prepared, when Begin succeeds for its keys. Typically it enqueues
	// them. It may also work until ctx ends, as OnStartedLeading does. The slot is released after OnAcquired has returned
	// and all work that was begun is done. ctx carries the leaderelect.Leadership of the slot, and ends when the slot is
	// lost or has to be handed over. After an error or a panic, this replica releases the slot and declines it, so that
	// others try: for four RetryPeriods after the first failure, and for at most 64 after several. Required.
	OnAcquired func(ctx context.Context, slot int) error

	// OnRevoked is called after all work of a slot has ended, before the slot is released, also if Prepare has failed. The cause is
	// leaderelect.ErrResigned if the slot goes to another replica. Otherwise it is the cause of the caller's context, the
	// reason why the lease was lost, or the error of Prepare or OnAcquired. Optional.
	OnRevoked func(slot int, cause error)
}

// maxSlots is the maximum number of slots and of members.
const maxSlots = 4096

// withDefaults returns a copy of cfg with its defaults, except those of Lease.
func (cfg Config) withDefaults() Config {
	if cfg.Slots == 0 {
		cfg.Slots = 64
	}
	if cfg.Members == 0 {
		cfg.Members = min(max(16, cfg.Slots), maxSlots)
	}
	return cfg
}

// validate returns an error that names each field of cfg that is out of its bounds. cfg has its defaults. leaderelect.New
// checks the rest of Lease.
func (cfg Config) validate() error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s %s", "Config."+field, fmt.Sprintf(format, args...)))
		}
	}
	check(cfg.Slots > 0 && cfg.Slots <= maxSlots, "Slots", "is %d, must be 1 to %d", cfg.Slots, maxSlots)
	check(cfg.Members > 0 && cfg.Members <= maxSlots, "Members", "is %d, must be 1 to %d", cfg.Members, maxSlots)
	check(cfg.OnAcquired != nil, "OnAcquired", "is required")
	check(cfg.Lease.OnStartedLeading == nil, "Lease.OnStartedLeading", "must be nil: use OnAcquired")
	check(cfg.Lease.OnStoppedLeading == nil, "Lease.OnStoppedLeading", "must be nil: use OnRevoked")
	check(cfg.Lease.OnNewLeader == nil, "Lease.OnNewLeader", "must be nil")
	check(cfg.Lease.Sessions == nil, "Lease.Sessions", "must be nil: slots do not use sessions")
	_, ok := cfg.Lease.Store.(Lister)
	check(ok || cfg.Slots == 1 || cfg.Lease.Store == nil, "Lease.Store", "must be a Lister, unless Slots is 1")
	return problems.Join(errs...)
}

// lease returns what the electors of all slots and of the membership share.
func (cfg Config) lease() leaderelect.Config {
	lease := cfg.Lease
	lease.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { return nil }
	lease.OnStoppedLeading, lease.OnNewLeader, lease.Sessions = nil, nil, nil
	lease.ReleaseOnCancel = true
	return lease
}
