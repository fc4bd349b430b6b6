package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Config is what [Slots] need to know. Lease.Store, Lease.Key and OnAcquired are required.
type Config struct {
	// Lease is what the leases of all slots have in common: Store, Key, Identity, the durations, Metadata and so on.
	// The records are named after Key: slot 7 is Key/slot/7, and member 2 is Key/member/2. Unless there is only one slot,
	// Store has to be a [Lister]. OnStartedLeading, OnStoppedLeading, OnNewLeader and Sessions must be nil. The other
	// callbacks and the Hooks are called for any slot, for several of them concurrently. ReleaseOnCancel is always on.
	Lease leaderelect.Config

	// Slots is the number of slots. It decides which slot a key has, so all replicas must have the same number: it is
	// recorded under Lease.Key, and Run returns an error that wraps leaderelect.ErrMismatch if the record has another one.
	// To change it, stop all replicas, delete that record, and start them with the new number. Choose a multiple of the
	// greatest number of replicas. At most 4096. Defaults to 64.
	Slots int

	// Members is how many replicas may take part at a time. More than that wait. At most 4096. Defaults to 16, or to Slots
	// if that is more.
	Members int

	// OnAcquired is called when a slot was acquired, and Owns and Begin are true for its keys: it enqueues them. It may
	// also stay and work until ctx ends, as OnStartedLeading does. The slot is released when OnAcquired has returned and
	// all work that was begun is done. ctx carries the leaderelect.Leadership of the slot, and ends when the slot is lost
	// or is to be handed over. After an error or a panic, this replica releases the slot and declines it for a while, so
	// that others try: for four RetryPeriods after the first failure, and for up to 64 after many. Required.
	OnAcquired func(ctx context.Context, slot int) error

	// OnRevoked is called when all work of a slot has ended, before the slot is released. The cause is
	// leaderelect.ErrResigned if the slot goes to another replica, or the cause of the end of the caller's context, or
	// why the lease was lost. Optional.
	OnRevoked func(slot int, cause error)
}

// maxSlots bounds the number of slots and of members.
const maxSlots = 4096

// withDefaults returns a copy of cfg with its defaults, but for those of Lease.
func (cfg Config) withDefaults() Config {
	if cfg.Slots == 0 {
		cfg.Slots = 64
	}
	if cfg.Members == 0 {
		cfg.Members = min(max(16, cfg.Slots), maxSlots)
	}
	return cfg
}

// validate returns an error that names each field of cfg, with its defaults in place, that is out of its bounds. What
// leaderelect.New checks of Lease it leaves out.
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
	check(cfg.Lease.OnStartedLeading == nil, "Lease.OnStartedLeading", "must be nil: there is OnAcquired")
	check(cfg.Lease.OnStoppedLeading == nil, "Lease.OnStoppedLeading", "must be nil: there is OnRevoked")
	check(cfg.Lease.OnNewLeader == nil, "Lease.OnNewLeader", "must be nil")
	check(cfg.Lease.Sessions == nil, "Lease.Sessions", "must be nil: it is for leader election")
	_, ok := cfg.Lease.Store.(Lister)
	check(ok || cfg.Slots == 1 || cfg.Lease.Store == nil, "Lease.Store", "must be a Lister, or there can be one slot only")
	return errors.Join(errs...)
}

// lease returns what the electors of all slots and of the membership share.
func (cfg Config) lease() leaderelect.Config {
	lease := cfg.Lease
	lease.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { return nil }
	lease.OnStoppedLeading, lease.OnNewLeader, lease.Sessions = nil, nil, nil
	lease.ReleaseOnCancel = true
	return lease
}
