package leasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// broken is a store, and its backend, that makes the mistakes whose fields are set.
type broken struct {
	inventive, createReplaces, updateCreates, blind, versionless, prefix, checksum, wraps, unversioned, returnsOld bool
	racy, termless, shortTerm, aliases, ignoresContext, vague, vagueConflict, forgetful, forgetsReads              bool
	listUnsorted, listKeys, listCut, listIgnoresContext                                                            bool
	watchLater, watchStale, watchAll, watchSilent, watchBack, watchNoDelete, watchTombstone, watchEndless          bool
	watchLeaks, deleteRestarts, floorRestarts, floorStays, hangs, dropSucceeds, cutTears, restartForgets           bool
	restartRewinds, guardPass, guardGreater, guardAnyKey, guardShort, guardRefuse, guardVague, guardEager          bool
	guardFree, guardHolds, leadingAnyKey, leadingNobody, lockHangs, lockDeadline, lockSucceeds                     bool
	createShort, causes, floorGiven, floorless, listFloorless, listAliases, listDeleted, listLags                  bool
	watchAliases, watchKeyless, watchFloor, watchPrefix, watchEnded, watchHangs, watchLags                         bool
	onlyRenewals, guardGone, guardZero, guardAll                                                                   bool
	createVersion, handleVersions, clampTerm, deadlines, slowFile                                                  bool
	watchOwn, watchOne, watchGap, watchSame                                                                        bool
	listPage                                                                                                       int

	versionOf func() string
	mapKey    func(string) string
	watchKey  func(string) string
	mapValue  func([]byte) []byte
	listMatch func(key, prefix string) bool
	endIs     error
	dropIs    error
	cutIs     error
	lockIs    error
	expires   time.Duration

	over chan struct{} // closed when the case is over or takes too long, to end hanging calls

	mu *sync.Mutex
	// mu guards the following.
	entries map[string]leaderelect.Entry
	old     leaderelect.Entry // before the last write
	foreign bool              // the last write came through another handle
	ghost   leaderelect.Entry // was deleted last
	writes  int
	floor   uint64
	reads   int
	others  int  // writes through the other handle
	watcher bool // somebody watches
	dropped bool
	cut     bool
	guards  map[string]int // guarded transactions, by key
	unlock  chan struct{}  // closed when another writer releases its lock; nil if none has it
}

// fresh returns an empty store with the mistakes of b.
func (b *broken) fresh() *broken {
	c := *b
	if c.watchKey == nil {
		c.watchKey = func(k string) string { return k }
	}
	c.over, c.mu, c.entries = make(chan struct{}), new(sync.Mutex), make(map[string]leaderelect.Entry)
	c.guards = make(map[string]int)
	if c.listMatch == nil {
		c.listMatch = strings.HasPrefix
	}
	return &c
}

func (b *broken) backend() Backend {
	return Backend{
		Store: b,
		Reopen: func() leaderelect.LeaseStore {
			if b.forgetful {
				return memlease.New()
			}
			return another{b}
		},
		Delete: b.delete,
		Idle:   10 * time.Second,
		Drop:   func() { b.locked(func() { b.dropped = true }) },
		Heal:   func() { b.locked(func() { b.dropped = false }) },
		Lock: func() func() {
			unlock := make(chan struct{})
			b.locked(func() { b.unlock = unlock })
			return func() { b.locked(func() { close(unlock); b.unlock = nil }) }
		},
		CutReply: func() { b.locked(func() { b.cut = true }) },
		Restart:  func() { b.locked(b.restartLocked) },
		Guard:    Guard{Do: b.guard, Leading: b.leading, Refused: errRefused},
	}
}

// another is another handle of a store.
type another struct{ *broken }

func (a another) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := a.broken.Create(ctx, e)
	a.locked(func() { a.foreign = true })
	return e, err
}

func (a another) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if a.handleVersions {
		a.locked(func() { a.writes, a.others = a.others, a.writes })
		defer a.locked(func() { a.writes, a.others = a.others, a.writes })
	}
	e, err := a.broken.Update(ctx, e)
	a.locked(func() { a.foreign = true })
	return e, err
}

func (b *broken) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *broken) delete(key string) {
	b.locked(func() {
		b.ghost = b.entries[b.key(key)]
		delete(b.entries, b.key(key))
		if b.deleteRestarts {
			b.writes = 0
		}
		if b.floorRestarts {
			b.floor = 0
		}
	})
}

func (b *broken) restartLocked() {
	if b.restartForgets && b.old.Version != "" {
		b.entries[b.old.Key] = b.old
	}
	if b.restartRewinds {
		b.writes--
		for k, e := range b.entries {
			e.Version = strconv.Itoa(b.writes)
			b.entries[k] = e
		}
	}
}

// arrive is the way of a request: false if it has none.
func (b *broken) arrive(ctx context.Context) error {
	sleep(ctx)
	b.mu.Lock()
	dropped := b.dropped
	b.mu.Unlock()
	if dropped {
		switch {
		case b.hangs:
			<-b.over
			return errVague
		case b.dropSucceeds:
			<-ctx.Done()
			return nil
		}
		<-ctx.Done()
		if b.dropIs != nil {
			return b.dropIs
		}
		return ctx.Err()
	}
	switch {
	case ctx.Err() == nil || b.ignoresContext || b.deadlines && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil
	case b.endIs != nil:
		return b.endIs
	case b.causes:
		return context.Cause(ctx)
	default:
		return ctx.Err()
	}
}

// arriveToWrite is arrive, and then the wait for another writer.
func (b *broken) arriveToWrite(ctx context.Context) error {
	if err := b.arrive(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	unlock := b.unlock
	b.mu.Unlock()
	if unlock == nil || b.lockSucceeds {
		return nil
	}
	ended := ctx.Done()
	if _, ok := ctx.Deadline(); b.lockHangs || b.lockDeadline && !ok {
		ended = b.over
	}
	select {
	case <-unlock:
		return nil
	case <-ended:
		if b.lockIs != nil {
			return b.lockIs
		}
		return errVague
	}
}

// reply is the way of the reply to a write.
func (b *broken) reply(e leaderelect.Entry) (leaderelect.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cut {
		return e, nil
	}
	b.cut = false
	if b.cutTears {
		e.Value = []byte("torn")
		b.entries[b.key(e.Key)] = e
	}
	if b.cutIs != nil {
		return leaderelect.Entry{}, b.cutIs
	}
	return leaderelect.Entry{}, errVague
}

func (b *broken) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := b.arrive(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.forgetsReads && b.reads%3 == 0 && b.old.Key == key && b.old.Version != "" {
		return b.old, nil
	}
	e, ok := b.entries[b.key(key)]
	switch {
	case !ok && b.inventive:
		return leaderelect.Entry{Key: key, Version: "0"}, nil
	case !ok && b.vague:
		return leaderelect.Entry{}, errVague
	case !ok:
		return leaderelect.Entry{}, leaderelect.ErrNotFound
	}
	e.Key = key
	if b.floorless {
		e.Floor = 0
	}
	return b.copied(e), nil
}

func (b *broken) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := b.arriveToWrite(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	b.mu.Lock()
	if _, ok := b.entries[b.key(e.Key)]; ok && !b.createReplaces {
		b.mu.Unlock()
		return leaderelect.Entry{}, b.conflict()
	}
	if b.slowFile { // a Create reads all records, and writes all
		kept := maps.Clone(b.entries)
		b.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		b.mu.Lock()
		b.entries = kept
	}
	if b.createShort {
		e.Term = uint64(uint32(e.Term))
	}
	e = b.putLocked(e)
	b.mu.Unlock()
	return b.reply(e)
}

func (b *broken) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := b.arriveToWrite(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	b.mu.Lock()
	have, ok := b.entries[b.key(e.Key)]
	for (b.guards[b.key(e.Key)] > 0 || b.guardAll && len(b.guards) > 0) && !b.guardFree && (have.Term != e.Term || b.guardHolds) {
		b.mu.Unlock()
		sleep(ctx)
		if ctx.Err() != nil {
			return leaderelect.Entry{}, ctx.Err()
		}
		b.mu.Lock()
	}
	same := have.Version == e.Version || b.blind || b.versionless && e.Version == "" ||
		b.prefix && have.Version != "" && strings.HasPrefix(e.Version, have.Version)
	if ok && !same || !ok && !b.updateCreates {
		b.mu.Unlock()
		return leaderelect.Entry{}, b.conflict()
	}
	if b.racy {
		b.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		b.mu.Lock()
	}
	b.old, b.foreign = have, false
	e = b.putLocked(e)
	b.mu.Unlock()
	return b.reply(e)
}

func (b *broken) List(ctx context.Context, prefix string) (list []leaderelect.Entry, err error) {
	if err := b.arrive(ctx); err != nil && !b.listIgnoresContext {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(b.entries)) {
		e := b.entries[k]
		switch {
		case b.listKeys:
			e = leaderelect.Entry{Key: e.Key, Version: e.Version}
		case b.listFloorless:
			e.Floor = 0
		case b.listLags && b.foreign && b.old.Key == k:
			e = b.old
		}
		if !b.listAliases {
			e = b.copied(e)
		}
		if b.listMatch(e.Key, prefix) && (!b.listCut || len(list) < 100) && (b.listPage == 0 || len(list) < b.listPage) {
			list = append(list, e)
		}
	}
	if b.listDeleted && b.ghost.Version != "" {
		list = append(list, b.ghost)
	}
	if b.listUnsorted {
		slices.Reverse(list)
	}
	return list, nil
}

func (b *broken) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		if b.watchEnded && ctx.Err() != nil {
			<-b.over
		}
		if b.watchLeaks {
			go func() { <-b.over }()
		}
		if b.watchEndless {
			defer func() { <-b.over }()
		}
		yielded, any := "nothing", b.watchLater
		if b.watchOne {
			b.mu.Lock()
			first := !b.watcher
			b.watcher = true
			b.mu.Unlock()
			if !first {
				b.mu.Lock()
				e := b.copied(b.entries[b.watchKey(b.key(key))])
				b.mu.Unlock()
				e.Key = key
				if yield(e, nil) {
					<-ctx.Done()
				}
				return
			}
			defer b.locked(func() { b.watcher = false })
		}
		for yielded, e := yielded, (leaderelect.Entry{}); ctx.Err() == nil; sleep(ctx) {
			b.mu.Lock()
			if b.watchHangs && b.dropped {
				b.mu.Unlock()
				<-b.over
				return
			}
			now := b.entries[b.watchKey(b.key(key))]
			for other, e := range b.entries {
				if b.watchPrefix && strings.HasPrefix(other, key) && e.Floor > now.Floor {
					now = e
				}
			}
			switch {
			case b.watchOwn && b.foreign && yielded != "nothing":
				now = e
			case b.watchSame && string(now.Value) == string(e.Value) && now.Version != "" && yielded != "nothing":
				now = e
			case b.watchAll && now.Version == yielded:
				now = b.entries["other"]
			case (b.watchStale || b.watchLags && b.foreign) && yielded == "nothing" && b.old.Version != "":
				now = b.old
			case b.watchBack && b.writes%4 == 3 && b.old.Version != "" && yielded != "nothing":
				now = b.old
			case b.watchSilent && yielded != "" && yielded != "nothing" && now.Version != "":
				now = e
			case b.watchNoDelete && now.Version == "" && yielded != "nothing":
				now = e
			}
			if any {
				yielded, any = now.Version, false
			}
			if now.Version == "" {
				now = leaderelect.Entry{Key: key}
				switch {
				case b.watchTombstone:
					now.Value, now.Term = e.Value, 1
				case b.watchKeyless && yielded != "nothing":
					now.Key = ""
				case b.watchFloor:
					now.Floor = b.floor
				}
			}
			e = now
			if !b.watchAliases {
				e = b.copied(e)
			}
			b.mu.Unlock()
			begins := yielded == "nothing"
			if e.Version != yielded && !yield(e, nil) {
				return
			}
			yielded = e.Version
			if b.watchGap && begins { // it follows the changes from now on
				b.mu.Lock()
				e = b.entries[b.watchKey(b.key(key))]
				yielded = e.Version
				b.mu.Unlock()
			}
		}
	}
}

func (b *broken) guard(ctx context.Context, key string, term uint64, f func()) error {
	sleep(ctx)
	if b.guardEager {
		f()
	}
	b.mu.Lock()
	e, ok := b.entries[b.key(key)]
	if !ok && b.guardGone {
		e, ok = b.ghost, b.ghost.Key == key
	}
	have := e.Term
	if b.guardShort {
		have, term = uint64(uint32(have)), uint64(uint32(term))
	}
	pass := ok && have == term || b.guardPass || b.guardZero && have == term || ok && b.guardGreater && term > have
	for _, other := range b.entries {
		pass = pass || b.guardAnyKey && other.Term == term
	}
	if !pass || b.guardRefuse {
		b.mu.Unlock()
		if b.guardVague {
			return errVague
		}
		return errRefused
	}
	b.guards[b.key(key)]++
	b.mu.Unlock()
	f()
	b.locked(func() {
		if b.guards[b.key(key)]--; b.guards[b.key(key)] == 0 {
			delete(b.guards, b.key(key))
		}
	})
	return nil
}

func (b *broken) leading(ctx context.Context, f func()) error {
	l, ok := leaderelect.FromContext(ctx)
	switch {
	case !ok && b.leadingNobody:
		f()
		return nil
	case !ok:
		return errVague
	case b.leadingAnyKey: // as if the caller had named the lease
		return b.guard(ctx, "other", l.Term(), f)
	}
	return b.guard(ctx, l.Key(), l.Term(), f)
}

func (b *broken) putLocked(e leaderelect.Entry) leaderelect.Entry {
	old := e.Version
	b.writes++
	if b.floorGiven {
		b.floor = max(b.floor, e.Floor)
	}
	if !b.floorStays || b.floor == 0 {
		b.floor++
	}
	e.Floor = b.floor
	switch {
	case b.createVersion && old != "" && b.entries[b.key(e.Key)].Version == "":
		e.Version = old
	case b.checksum:
		e.Version = fmt.Sprint(crc32.ChecksumIEEE(e.Value))
	case b.wraps:
		e.Version = strconv.Itoa(b.writes % 128)
	case b.unversioned:
		e.Version = ""
	case b.versionOf != nil:
		e.Version = b.versionOf()
	default:
		e.Version = strconv.Itoa(b.writes)
	}
	kept := b.copied(e)
	if b.mapValue != nil {
		kept.Value = b.mapValue(kept.Value)
	}
	if b.termless {
		kept.Term = 0
	}
	if b.clampTerm {
		kept.Term = min(kept.Term, math.MaxInt64)
	}
	if b.shortTerm {
		kept.Term = uint64(uint32(kept.Term))
	}
	b.entries[b.key(e.Key)] = kept
	if b.expires > 0 && (old != "" || !b.onlyRenewals) {
		time.AfterFunc(b.expires, func() { b.delete(e.Key) })
	}
	if b.returnsOld && old != "" {
		e.Version = old
	}
	return b.copied(e)
}

func (b *broken) conflict() error {
	if b.vagueConflict {
		return errVague
	}
	return leaderelect.ErrConflict
}

func (b *broken) key(key string) string {
	if b.mapKey == nil {
		return key
	}
	return b.mapKey(key)
}

func (b *broken) copied(e leaderelect.Entry) leaderelect.Entry {
	if !b.aliases {
		e.Value = bytes.Clone(e.Value)
	}
	return e
}
