package shard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// peers has all records of [Slots], as the last List returned them.
type peers struct {
	lister  Lister
	key     string // the prefix of the keys of all records
	timing  lease.Timing
	log     *slog.Logger
	period  func() time.Duration
	calls   lease.Calls
	wake    chan struct{} // capacity 1; nudge sends, run receives, never closed
	changed broadcast.Signal

	mu sync.Mutex
	// mu guards the following.
	seen    map[string]lease.Observation // by key; nil before the first read
	entries map[string]leaderelect.Entry // by key
}

// member is a replica that takes part.
type member struct {
	number   int
	leader   leaderelect.Leader
	declines []int // slots that it could not acquire
}

// snapshot has the members and the owners of the slots.
type snapshot struct {
	members []member // in order of their numbers, each replica once
	owners  []int    // member by slot; nobody if the slot is free or its owner is no member
	free    []bool   // by slot: it was released or has expired
	vacant  int      // the first free member number; nobody if there is none, or nothing has been read yet
}

// run reads the records every period until ctx ends. It calls then after each read.
func (p *peers) run(ctx context.Context, then func()) error {
	warnings := lease.NewWarnings(p.log)
	for ctx.Err() == nil {
		if err := p.list(ctx); err == nil {
			then()
		} else if ctx.Err() == nil {
			warnings.Warn(ctx, "reading the slots failed", err)
		}
		timer := time.NewTimer(p.period())
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	if left := p.calls.Wait(p.timing.Grace()); left > 0 {
		return fmt.Errorf("shard: run %q: %d calls have not returned: %w", p.key, left, leaderelect.ErrStoreStuck)
	}
	return nil
}

// list reads all records.
func (p *peers) list(ctx context.Context) error {
	list, err := lease.Do(ctx, &p.calls, p.timing.RequestTimeout, p.lister.List, p.key+"/")
	if err != nil {
		return err
	}
	at := time.Now()
	seen, entries := make(map[string]lease.Observation, len(list)), make(map[string]leaderelect.Entry, len(list))
	p.mu.Lock()
	for _, e := range list {
		o := lease.Observation{View: viewOf(e, at), Since: at}
		if before, ok := p.seen[e.Key]; ok && before.Version == o.Version {
			o.Since = before.Since
		}
		seen[e.Key], entries[e.Key] = o, e
	}
	p.seen, p.entries = seen, entries
	p.mu.Unlock()
	p.changed.Wake()
	return nil
}

// forget drops all records.
func (p *peers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.entries = nil, nil
}

// nudge makes run read the records now.
func (p *peers) nudge() { lease.Wake(p.wake) }

// snapshot interprets the records.
func (p *peers) snapshot(slots, members int) snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := snapshot{vacant: nobody}
	numbers := make(map[string]int, members) // by incarnation
	for n := range members {
		o, ok := p.seen[memberKey(p.key, n)]
		if free := !ok || !o.Held() || p.expired(o); free {
			if s.vacant == nobody && p.seen != nil {
				s.vacant = n
			}
			continue
		}
		// A replica that has lost its membership and taken another is still one member. It renews the record that has changed last.
		before, twice := numbers[o.Record.Incarnation]
		if !twice || o.Since.After(p.seen[memberKey(p.key, before)].Since) {
			numbers[o.Record.Incarnation] = n
		}
	}
	for _, n := range slices.Sorted(maps.Values(numbers)) {
		o := p.seen[memberKey(p.key, n)]
		s.members = append(s.members, member{n, leaderOf(o.Record), o.Record.Declines})
	}
	for n := range slots {
		owner := nobody
		o := p.seen[slotKey(p.key, n)]
		s.free = append(s.free, p.seen != nil && (!o.Held() || p.expired(o)))
		if o.Held() {
			if n, ok := numbers[o.Record.Incarnation]; ok {
				owner = n
			}
		}
		s.owners = append(s.owners, owner)
	}
	return s
}

// observation returns a record as it was last read, and since when it has not changed.
func (p *peers) observation(key string) lease.Observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[key]
}

// expired reports whether o had not changed for its LeaseDuration when it was last read.
func (p *peers) expired(o lease.Observation) bool {
	return o.At.Sub(o.Since) >= cmp.Or(o.Record.Lease(), p.timing.LeaseDuration)
}

// slotKey and memberKey name the records.
func slotKey(key string, n int) string   { return key + "/slot/" + strconv.Itoa(n) }
func memberKey(key string, n int) string { return key + "/member/" + strconv.Itoa(n) }

// viewOf decodes e, which was read by the given time.
func viewOf(e leaderelect.Entry, at time.Time) lease.View {
	return lease.ViewOf(e.Value, e.Version, e.Term, e.Floor, at)
}

// leaderOf returns the holder of a record.
func leaderOf(r lease.Record) leaderelect.Leader {
	return leaderelect.Leader{
		Identity: r.Holder, Incarnation: r.Incarnation, Term: r.Term, Metadata: maps.Clone(r.Metadata), Since: r.AcquireTime.Round(0),
	}
}
