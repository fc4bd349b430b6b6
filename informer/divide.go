package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
)

// Divide returns src, whose objects are divided into slots by the text that shardKey returns. An [Informer] of it that [Informer.Share] was
// called for holds the objects of some slots only: those for which [Informer.Hold] was called. So replicas that share the keys of a controller
// need not each hold all objects. Without Share, the informer holds all objects. Divide panics if src or shardKey is nil.
//
// The text must be that of the key to which a controller maps the object, as its Config.ShardKey returns it: a child is in the slot of its
// owner. So divide the informer of each input, or the cache of one has objects of slots that the others do not have. If an object may concern
// keys of several slots, as a shared configuration does, do not divide its informer. A controller reports an object that it maps to a key of
// another slot.
//
// The whole source is watched in each replica, and listed, unless src is a [RangeWatcher] and a [RangeLister]: Divide saves memory, and what
// handlers do, but no other reads. While no slot is held, a source that is a [Versioner] is not listed. shardKey must always return the same text for the same object, and be safe for concurrent use. The
// text may change from one state of an object to the next: then the object moves.
//
// An object that cannot be read has no known slot: [Informer.Unread] knows it in each replica, and so it does records that are missing.
func Divide[T any](src ListWatcher[T], shardKey func(T) string) ListWatcher[T] {
	if src == nil || shardKey == nil {
		panic("informer: Divide needs a source and a function")
	}
	d := &divided[T]{filter: filter[T]{src, pagesOf(src), equalOf(src), func(T) bool { return true }}, shardKey: shardKey}
	if d.equal == nil {
		d.equal = func(T, T) bool { return false }
	}
	return d
}

// RangeLister is an optional interface of a [ListWatcher] that is given to [Divide]: a source that lists the objects of some slots without
// reading the others, such as a table with an index on the hash of the text that shardKey returns.
type RangeLister[T any] interface {
	// ListRanges returns a list, in pages, like ListPages of a [Pager], of the objects whose hash is in one of the ranges. They are sorted, and
	// do not overlap. The hash is that of the slots: for those of package shard, the first 32 bits of the MD5 of the text, in big-endian order. Any
	// object of another range makes the list fail: then the source and shardKey disagree about the text. ListRanges returns nil if the source is
	// not set up for it; then the informer lists everything.
	ListRanges(ctx context.Context, ranges []HashRange) iter.Seq2[List[T], error]
}

// RangeWatcher is an optional interface of a [ListWatcher] that is given to [Divide]: a source that can watch the objects of some slots with
// less effort than all of them.
type RangeWatcher[T any] interface {
	// WatchRanges is like Watch, for an informer that holds the objects whose hash is in one of the ranges: see [RangeLister]. It reports
	// each change of an object whose hash is in one of them before or after the change. It may report other changes, which the informer
	// drops. Bookmarks and the versions of events are those of Watch. There may be no ranges.
	WatchRanges(ctx context.Context, after Version, ranges []HashRange) iter.Seq2[Event[T], error]
}

// HashRange is the hashes from From on that are less than To.
type HashRange struct{ From, To uint64 }

// divided is a filter that passes everything, and can be restricted to slots.
type divided[T any] struct {
	filter[T]
	shardKey func(T) string
}

func (d *divided[T]) isDivided() {}

// checkDivided returns an error if a source of Divide is hidden under src.
func checkDivided(src any) error {
	for of, ok := src.(interface{ Source() any }); ok; of, ok = src.(interface{ Source() any }) {
		src = of.Source()
		if _, under := src.(interface{ isDivided() }); under {
			return errors.New("its source is made from one of Divide: call Divide last, after Filter and Map")
		}
	}
	return nil
}

// in returns the objects that has returns true for.
func (d *divided[T]) in(has func(shardKey string) bool) *filter[T] {
	f := d.filter
	f.keep = func(obj T) bool { return has(d.shardKey(obj)) }
	return &f
}

// inRanges returns the list of the objects in ranges of hashes, or nil if the source cannot select them. has reports whether a text is in them.
func (d *divided[T]) inRanges(ctx context.Context, ranges []HashRange, has func(shardKey string) bool) iter.Seq2[List[T], error] {
	lister, ok := d.src.(RangeLister[T])
	if !ok {
		return nil
	}
	pages := lister.ListRanges(ctx, ranges)
	if pages == nil {
		return nil
	}
	return func(yield func(List[T], error) bool) {
		for page, err := range pages {
			for _, obj := range page.Items {
				if text := d.shardKey(obj); !has(text) {
					page, err = List[T]{}, fmt.Errorf("the source has selected an object of another slot: its hash is not that of %q, which the "+
						"function of informer.Divide returns", text)
					break
				}
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// slots are the slots of a divided source that an informer holds. A nil *slots has none.
//
//  1. Between a list and the next one, the cache has exactly the objects of the slots of the first that were not dropped since.
//  2. Hold returns nil only if a list that began after the call is in the cache, and the slot was not dropped in the meantime.
//  3. After a drop is in the cache, no event of the slot follows, until a list has it again.
type slots[K comparable, T any] struct {
	source *divided[T]
	index  *cache.Index[int, K, T] // by slot; nil before Share
	slotOf func(shardKey string) int
	ranges func(slot int) (from, to uint64) // of the hashes of a slot; nil if they are unknown

	mu sync.Mutex
	// mu guards the following.
	held    map[int]*held // by slot: since Hold, until Drop
	dropped []int         // and not yet taken by the reflector
}

// held is a slot from Hold to Drop.
type held struct {
	dropped  context.Context // ends with the slot
	end      context.CancelFunc
	complete bool // the cache has all objects of the slot
	calls    int  // of Hold that are in progress
}

// shared reports whether only some slots are held. It never changes after Run has begun.
func (s *slots[K, T]) shared() bool { return s != nil && s.slotOf != nil }

// slot returns the slot of an object.
func (s *slots[K, T]) slot(obj T) int { return s.slotOf(s.source.shardKey(obj)) }

// set returns a function that reports whether a text is of one of the slots.
func (s *slots[K, T]) set(of []int) func(shardKey string) bool {
	return func(shardKey string) bool {
		_, ok := slices.BinarySearch(of, s.slotOf(shardKey))
		return ok
	}
}

// rangesOf returns the ranges of hashes of slots, which are in ascending order. It joins neighbors.
func (s *slots[K, T]) rangesOf(of []int) []HashRange {
	var all []HashRange
	for _, slot := range of {
		from, to := s.ranges(slot)
		if last := len(all) - 1; last >= 0 && all[last].To == from {
			all[last].To = to
		} else {
			all = append(all, HashRange{from, to})
		}
	}
	return all
}

// take returns the slots that are held, in ascending order, and those that were dropped since it was last called.
func (s *slots[K, T]) take() (wants, dropped []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped, s.dropped = s.dropped, nil
	return slices.Sorted(maps.Keys(s.held)), dropped
}

// slotsWithout returns the slots of all that are not in some. Both are in ascending order.
func slotsWithout(all, some []int) []int {
	return slices.DeleteFunc(slices.Clone(all), func(slot int) bool {
		_, found := slices.BinarySearch(some, slot)
		return found
	})
}

// isIn returns a function that reports whether an object is in one of the slots; nil if there are none.
func (s *slots[K, T]) isIn(of []int) func(T) bool {
	if len(of) == 0 {
		return nil
	}
	has := s.set(of)
	return func(obj T) bool { return has(s.source.shardKey(obj)) }
}

// watch returns a watch of the objects in slots, which are in ascending order.
func (s *slots[K, T]) watch(ctx context.Context, after Version, of []int) iter.Seq2[Event[T], error] {
	f := s.source.in(s.set(of))
	if w, ok := s.source.src.(RangeWatcher[T]); ok && s.ranges != nil {
		return f.pass(w.WatchRanges(ctx, after, s.rangesOf(of)))
	}
	return f.Watch(ctx, after)
}

// keysIn returns the keys of the cached objects in a slot.
func (s *slots[K, T]) keysIn(slot int) (keys []K) {
	for key := range s.index.All(slot) {
		keys = append(keys, key)
	}
	return keys
}

// beginHold begins a call of Hold. It reports whether the slot was not held before.
func (s *slots[K, T]) beginHold(slot int) (h *held, joins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.held[slot]
	if joins = h == nil; joins {
		h = &held{}
		h.dropped, h.end = context.WithCancel(context.Background())
		s.held[slot] = h
	}
	h.calls++
	return h, joins
}

// endHold ends a call of Hold, for which beginHold has returned h: the cache has all objects of the slot, or there is an error. After an error of the last call, the
// slot is dropped, unless it was complete before; then dropped is true.
func (s *slots[K, T]) endHold(slot int, h *held, err error) (dropped bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.calls--
	switch {
	case s.held[slot] != h:
		return false, cmp.Or(err, errDropped)
	case err == nil:
		h.complete = true
	case h.calls == 0 && !h.complete:
		s.dropLocked(slot)
		return true, err
	}
	return false, err
}

// drop records that a slot is not held. It reports whether it was, and whether the cache had all its objects.
func (s *slots[K, T]) drop(slot int) (was, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, was := s.held[slot]
	if was {
		complete = h.complete
		s.dropLocked(slot)
	}
	return was, complete
}

func (s *slots[K, T]) dropLocked(slot int) {
	s.held[slot].end()
	delete(s.held, slot)
	s.dropped = append(s.dropped, slot)
}

var errDropped = errors.New("the slot was dropped")

// Share makes the informer hold only the objects of the slots that Hold is called for, at first none. slotOf returns the slot of a text, and
// ranges the hashes of a slot, as the methods Slot and HashRange of a shard.Slots do. A controller calls Share for its informers. A second call has
// no effect, so several controllers that share an informer must have the same slots. Share does nothing if the source was not made by [Divide]. It
// panics if slotOf is nil, and if the first call comes after Run has begun. ranges may be nil; then a [RangeLister] is asked for everything.
func (in *Informer[K, T]) Share(slotOf func(shardKey string) int, ranges func(slot int) (from, to uint64)) {
	if slotOf == nil {
		panic("informer: Share called with a nil function")
	}
	if in.slots == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.slots.shared() {
		return
	}
	if in.running {
		panic("informer: Share called after Run")
	}
	in.slots.held, in.slots.slotOf, in.slots.ranges = make(map[int]*held), slotOf, ranges
	in.slots.index = cache.AddIndex(in.indexer, func(obj T) []int { return []int{in.slots.slot(obj)} })
}

// Divided reports whether the source was made by [Divide].
func (in *Informer[K, T]) Divided() bool { return in.slots != nil }

// Slot returns the slot of an object, or false without [Informer.Share].
func (in *Informer[K, T]) Slot(obj T) (slot int, ok bool) {
	if !in.slots.shared() {
		return 0, false
	}
	return in.slots.slot(obj), true
}

// Hold makes the cache hold the objects of a slot, until Drop. It returns nil when a list that began after the call is in the cache. So the
// cache has each change of the slot that was committed before the call, unless the source lists from a replica that lags; then call CatchUp
// after Hold. Handlers get the objects of the slot as initial ones. Calls at the same time share lists. These lists have only the slots that were
// not held before, if the source is a [RangeLister], so their cost does not grow with the slots that are held.
//
// If ctx ends first, the error of Hold wraps the cause of ctx. If Run ends first, it wraps [ErrEnded]. If the slot is dropped first, it is another
// error. After an error the slot is not held, unless another call of Hold has succeeded, or is in progress. Handlers may then see objects of the slot
// that come, and leave by OnDrop. Before Run, Hold waits. Without [Informer.Share], the cache holds everything, and Hold returns nil.
func (in *Informer[K, T]) Hold(ctx context.Context, slot int) error {
	if !in.slots.shared() {
		return nil
	}
	h, joins := in.slots.beginHold(slot)
	listing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.dropped, func() { cancel(errDropped) })() // a call of cancel; no code waits for it
	lists, request := in.catchUps.holds, &in.reflector.hold
	if !joins { // a list of the slots that join may not have it
		lists, request = in.catchUps.lists, &in.reflector.relist
	}
	err := lists.wait(listing, in.ended, func() { in.reflector.request(request) })
	dropped, err := in.slots.endHold(slot, h, err)
	if dropped {
		in.dropSoon(false)
	}
	if err != nil {
		return fmt.Errorf("informer: hold slot %d of %s: %w", slot, in.cfg.Name, err)
	}
	return nil
}

// Drop makes the objects of a slot leave the cache. They are not deleted: handlers get OnDrop. Drop does not wait for that. It ends an open watch,
// so that they leave at once, but no list: then they leave after the list, or, after a list that fails, after the delay of Config.Backoff. Without
// [Informer.Share], or if the slot is not held, Drop does nothing.
func (in *Informer[K, T]) Drop(slot int) {
	if !in.slots.shared() {
		return
	}
	if was, complete := in.slots.drop(slot); was {
		in.dropSoon(complete)
	}
}

// dropSoon interrupts a watch, so that the slots that were dropped leave the cache. A list continues, and they leave after it. But a list of slots
// that join is also interrupted if a slot was dropped that was not complete, since it may be that one which cannot be listed.
func (in *Informer[K, T]) dropSoon(complete bool) {
	if in.reflector.watches.Load() || in.reflector.joining.Load() && !complete {
		in.reflector.retry()
	}
}

// Held returns the slots of which the cache has all objects, in ascending order: those whose Hold has returned nil, and that were not dropped
// since. It is empty without [Informer.Share].
func (in *Informer[K, T]) Held() []int {
	if !in.slots.shared() {
		return nil
	}
	in.slots.mu.Lock()
	defer in.slots.mu.Unlock()
	complete := make([]int, 0, len(in.slots.held))
	for slot, h := range in.slots.held {
		if h.complete {
			complete = append(complete, slot)
		}
	}
	slices.Sort(complete)
	return complete
}

// InSlot iterates over the cached objects of a slot, in no order. It yields nothing without [Informer.Share]. Its cost does not depend on the
// other objects.
func (in *Informer[K, T]) InSlot(slot int) iter.Seq2[K, T] {
	if !in.slots.shared() {
		return func(func(K, T) bool) {}
	}
	return in.slots.index.All(slot)
}
