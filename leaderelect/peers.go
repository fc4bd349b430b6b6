package leaderelect

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// peers is what all records of [Slots] said when they were read last, in one List for all.
type peers struct {
	lister  Lister
	prefix  string
	lease   Config // with defaults
	log     *slog.Logger
	period  func() time.Duration
	calls   calls
	wake    chan struct{} // capacity 1; who wants the next read now sends, run receives, nobody closes
	changed signal

	mu sync.Mutex
	// mu guards the following.
	seen    map[string]observation // by key; nil before the first read
	entries map[string]Entry       // by key
}

// member is a replica that has a seat.
type member struct {
	seat     int
	leader   Leader
	declines []int // slots that it could not acquire
}

// snapshot is who is there, and who owns what.
type snapshot struct {
	members  []member // by seat
	owners   []int    // seat by slot; nobody if it is free or its owner has no seat
	free     []bool   // by slot: it was released, or has expired
	freeSeat int      // the first one; nobody if there is none, or nothing was read
}

// run reads every period until ctx ends, and calls then after each.
func (p *peers) run(ctx context.Context, then func()) error {
	warnings := newWarnings(p.log)
	for ctx.Err() == nil {
		if err := p.list(ctx); err == nil {
			then()
		} else if ctx.Err() == nil {
			warnings.warn(ctx, "leaderelect: reading the slots failed", err)
		}
		timer := time.NewTimer(p.period())
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	if left := p.calls.wait(p.lease.RequestTimeout); left > 0 {
		return fmt.Errorf("leaderelect: run slots %q: %d calls have not returned: %w", p.lease.Key, left, ErrStoreStuck)
	}
	return nil
}

// list reads all records.
func (p *peers) list(ctx context.Context) error {
	var list []Entry // read after the call has returned only
	_, err := p.calls.do(ctx, p.lease.RequestTimeout, func(ctx context.Context) (Entry, error) {
		got, err := p.lister.List(ctx, p.prefix)
		if err == nil {
			list = got
		}
		return Entry{}, err
	})
	if err != nil {
		return err
	}
	at := time.Now()
	seen, entries := make(map[string]observation, len(list)), make(map[string]Entry, len(list))
	p.mu.Lock()
	for _, e := range list {
		o := observation{view: viewOf(e, at), since: at}
		if before, ok := p.seen[e.Key]; ok && before.version == o.version {
			o.since = before.since
		}
		seen[e.Key], entries[e.Key] = o, e
	}
	p.seen, p.entries = seen, entries
	p.mu.Unlock()
	p.changed.fire()
	return nil
}

// forget makes the next read the first one.
func (p *peers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.entries = nil, nil
}

// nudge has the records read now.
func (p *peers) nudge() { wake(p.wake) }

// snapshot returns what the records said.
func (p *peers) snapshot(slots, seats int) snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := snapshot{freeSeat: nobody}
	seatOf := make(map[string]int, seats)
	for n := range seats {
		o, ok := p.seen[seatKey(p.prefix, n)]
		switch free := !ok || !o.held() || p.expired(o); {
		case !free:
			s.members = append(s.members, member{n, o.rec.leader(), o.rec.Declines})
			seatOf[o.rec.Incarnation] = n
		case s.freeSeat == nobody && p.seen != nil:
			s.freeSeat = n
		}
	}
	for n := range slots {
		owner := nobody
		o := p.seen[slotKey(p.prefix, n)]
		s.free = append(s.free, p.seen != nil && (!o.held() || p.expired(o)))
		if o.held() {
			if seat, ok := seatOf[o.rec.Incarnation]; ok {
				owner = seat
			}
		}
		s.owners = append(s.owners, owner)
	}
	return s
}

// observation returns what was read of one record, and since when it is so.
func (p *peers) observation(key string) observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[key]
}

// expired reports whether nobody has renewed o for as long as its lease lasts, when it was read.
func (p *peers) expired(o observation) bool {
	lease := o.rec.lease()
	if lease == 0 {
		lease = p.lease.LeaseDuration
	}
	return o.at.Sub(o.since) >= lease
}

// told is a store whose watches tell what peers has read: for slots in a store that cannot watch, so that the electors of
// all slots need one read between them.
type told struct {
	LeaseStore
	peers *peers
}

// Watch yields the record whenever another version was read.
func (s told) Watch(ctx context.Context, key string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		version, first := "", true
		for ctx.Err() == nil {
			changed := s.peers.changed.wait()
			s.peers.mu.Lock()
			e, read := s.peers.entries[key], s.peers.seen != nil
			s.peers.mu.Unlock()
			if read && (first || e.Version != version) {
				e.Key, version, first = key, e.Version, false
				if !yield(e, nil) {
					return
				}
				continue
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}
