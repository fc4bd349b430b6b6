package controller

import (
	"iter"
	"reflect"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// KeyInfo is what a [Controller] knows about a key. The key is given as text: see [Inspector].
type KeyInfo struct {
	// KeyInfo is what the queue knows. Its State is zero if the key is not in the queue. For a held key that is neither ready nor in flight,
	// Since is the time at which HeldBy began to hold the key. If the key is in no state and not held, Since is the time of PauseKey.
	workqueue.KeyInfo[string]

	// Attempt is the number of the attempt in flight: see [Info]. It is zero if the key is not in flight.
	Attempt int

	// Paused is true between PauseKey and ResumeKey. PausedSince is the time of PauseKey.
	Paused      bool
	PausedSince time.Time

	// HeldBy is the reason why the key is held, if it is due but not ready: one of the reasons of [Stats.HeldBy], or "next run" after a
	// fenced write. It is empty otherwise. HeldUntil is the time at which an expectation expires, and zero if it does not expire.
	HeldBy    string
	HeldUntil time.Time
}

// Inspector describes the keys of a [Controller], and acts on them, for pages and tools that do not know the type of the keys.
// [Controller.Inspect] returns it.
//
// A key is named by its text, as fmt.Sprint returns it. If K is a string or an integer type without a method String, the text of any key
// names it. Otherwise, a text only names a key that the controller or the cache of one of its informers holds. Finding that key takes time
// proportional to the number of keys. If several keys have the same text, the first that is found counts. The methods that act on a key
// return false if the text names none.
//
// All methods are safe for concurrent use. None but Resync, which copies the parked keys, holds a lock of the queue for more than 128 keys
// at a time.
type Inspector interface {
	// Keys iterates over the keys that wait, are in flight, are held or paused, are parked, or have failed, in no particular order. It
	// describes each key as of a different moment. A key that changes during the iteration may be yielded twice, or not at all.
	Keys() iter.Seq[KeyInfo]

	// Key describes one key. It returns false if the text names no key.
	Key(text string) (KeyInfo, bool)

	// Slot returns the slot of the key, if c shares its keys: see [Controller.Share]. It returns false if c does not, if the text names no
	// key, or if Config.ShardKey panics.
	Slot(text string) (slot int, ok bool)

	// Stack returns the stack of the goroutine that reconciles the key, or nil if the key is not in flight. It stops all goroutines for a
	// moment, at most once in five seconds for each reconcile; in between, it returns the last stack of the reconcile.
	Stack(text string) []byte

	// History returns the reconciles of the key among the latest 2,048 that have ended, those of all keys together, the latest first.
	History(text string) []Ended

	// Retry adds the key, as [Controller.Add] does: a backoff ends, and a parked key is revived.
	Retry(text string) bool

	// Forget stops retrying the key: its failures are forgotten, its backoff ends, and it is no longer parked. A key that is ready, or has
	// a RequeueAfter, is still reconciled.
	Forget(text string) bool

	// PauseKey and ResumeKey are those of [Controller].
	PauseKey(text string) bool
	ResumeKey(text string) bool

	// Resync adds every key once, as Config.Resync does, and returns the number of additions. Between Runs it does nothing. It calls
	// the mapping functions of [Watches].
	Resync() int
}

// Inspect returns a view of the keys of c as text.
func (c *Controller[K]) Inspect() Inspector { return inspector[K]{c} }

// inspector is the Inspector of a controller.
type inspector[K comparable] struct{ c *Controller[K] }

func (i inspector[K]) Keys() iter.Seq[KeyInfo] {
	return func(yield func(KeyInfo) bool) {
		inFlight := i.inFlight()
		for k := range i.c.pending.all() {
			if !yield(describe(k, inFlight[k.Key])) {
				return
			}
		}
	}
}

func (i inspector[K]) Key(text string) (KeyInfo, bool) {
	key, ok := i.find(text)
	if !ok {
		return KeyInfo{}, false
	}
	return describe(i.c.pending.of(key), i.inFlight()[key]), true
}

func (i inspector[K]) Slot(text string) (slot int, ok bool) {
	slots := i.c.slots.Load()
	if slots == nil {
		return 0, false
	}
	key, ok := i.find(text)
	if !ok {
		return 0, false
	}
	return i.c.slotOf(*slots, key)
}

func (i inspector[K]) Stack(text string) []byte {
	if key, ok := i.find(text); ok {
		for _, w := range i.workers() {
			if a := w.current.Load(); a != nil && a.key == key {
				return w.stackIn(a)
			}
		}
	}
	return nil
}

func (i inspector[K]) History(text string) []Ended {
	if key, ok := i.find(text); ok {
		return i.c.history.of(key)
	}
	return nil
}

func (i inspector[K]) Retry(text string) bool { return i.withKey(text, i.c.Add) }

func (i inspector[K]) Forget(text string) bool {
	return i.withKey(text, func(key K) {
		i.c.unfinished.end(key)
		i.c.own.end(key, false)
		i.c.queue.Forget(key)
		i.c.queue.DropParked(key)
	})
}

func (i inspector[K]) PauseKey(text string) bool  { return i.withKey(text, i.c.PauseKey) }
func (i inspector[K]) ResumeKey(text string) bool { return i.withKey(text, i.c.ResumeKey) }

func (i inspector[K]) Resync() (n int) {
	if !i.c.inputs.started() {
		return 0
	}
	keys := i.c.queue.Parked()
	i.c.inputs.present(noSlot, func(key K) { keys = append(keys, key) })
	seen := make(map[K]bool, len(keys))
	for _, key := range keys {
		if !seen[key] {
			seen[key] = true
			i.c.addResync(key)
		}
	}
	return len(seen)
}

// withKey calls do with the key that text names.
func (i inspector[K]) withKey(text string, do func(K)) bool {
	key, ok := i.find(text)
	if ok {
		do(key)
	}
	return ok
}

// workers returns the workers of the present Run.
func (i inspector[K]) workers() []*worker[K] {
	i.c.mu.Lock()
	working := i.c.working
	i.c.mu.Unlock()
	if working == nil {
		return nil
	}
	return working.list()
}

// inFlight returns the reconciles in flight.
func (i inspector[K]) inFlight() map[K]*attempt[K] {
	var attempts map[K]*attempt[K] // of none, often
	for _, w := range i.workers() {
		if a := w.current.Load(); a != nil {
			if attempts == nil {
				attempts = make(map[K]*attempt[K])
			}
			attempts[a.key] = a
		}
	}
	return attempts
}

// describe collects what is known about a key. a is the reconcile in flight, or nil.
func describe[K comparable](k pendingKey[K], a *attempt[K]) KeyInfo {
	info := KeyInfo{Paused: !k.pausedSince.IsZero(), PausedSince: k.pausedSince, HeldBy: k.heldBy, HeldUntil: k.heldUntil}
	info.KeyInfo = workqueue.KeyInfo[string]{
		Key: keyText(k.Key), State: k.State, Dirty: k.Dirty, Since: k.Since, Next: k.Next, QuietUntil: k.QuietUntil,
		Priority: k.Priority, Group: k.Group, Failures: k.Failures, FirstFailure: k.FirstFailure, Reasons: k.Reasons,
	}
	if a != nil && k.State == workqueue.InProcess {
		info.Attempt = a.ordinal
	}
	return info
}

// find returns the key that text names.
func (i inspector[K]) find(text string) (key K, ok bool) {
	v := reflect.ValueOf(&key).Elem()
	named := true
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, err := strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n, err := strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(n)
		}
	default:
		named = false // the zero value need not be a key
	}
	if named && keyText(key) == text {
		return key, true
	}
	for k := range i.c.pending.all() {
		if keyText(k.Key) == text {
			return k.Key, true
		}
	}
	for _, in := range i.c.inputs.informers {
		if cache, ok := in.(interface{ Keys() iter.Seq[K] }); ok {
			for key := range cache.Keys() {
				if keyText(key) == text {
					return key, true
				}
			}
		}
	}
	return key, false
}
