package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// world is a store in memory beside a plain map that does the same.
type world struct {
	t    *testing.T
	db   *store.Memory
	apps store.Store[App]

	held    map[string]row
	story   []string // event by event, the first has version 1
	uids    int
	term    uint64
	firstA  string // the UID of the first life of "a"
	ops     []string
	history int
}

// row is an object of the model.
type row struct {
	version    informer.Version
	uid        string
	replicas   int
	finalizers string
	deleting   bool
}

func (r row) String() string {
	return fmt.Sprintf("v%d %s %d %q %t", r.version, r.uid, r.replicas, r.finalizers, r.deleting)
}

func newWorld(t *testing.T, history int) *world {
	db := store.NewMemory(store.MemoryConfig{History: history})
	apps, err := store.Open(db, "app", store.Config[App]{NewUID: numbered()})
	require.NoError(t, err)
	return &world{t: t, db: db, apps: apps, held: map[string]row{}, history: history}
}

// toRow turns an object into the row that it should be.
func toRow(o object) row {
	return row{o.Version, o.UID, o.Value.Replicas, strings.Join(o.Finalizers, ","), !o.Deleting.IsZero()}
}

// tell makes r the next change.
func (w *world) tell(what informer.EventType, key string, r row) row {
	r.version = informer.Version(len(w.story) + 1)
	w.story = append(w.story, fmt.Sprint(what, " ", key, " ", r))
	if what == informer.Deleted {
		delete(w.held, key)
	} else {
		w.held[key] = r
	}
	return r
}

func (w *world) create(key, finalizers string) {
	var f []string
	if finalizers != "" {
		f = []string{finalizers}
	}
	got, err := w.apps.Create(context.Background(), object{Key: key, Finalizers: f})
	w.uids++
	if _, there := w.held[key]; there {
		w.want(err, store.ErrExists)
		return
	}
	w.want(err, nil)
	r := w.tell(informer.Added, key, row{uid: fmt.Sprint("u", w.uids), finalizers: finalizers})
	w.sameRow(got, r)
	if key == "a" && w.firstA == "" {
		w.firstA = r.uid
	}
}

// update changes "a", back versions ago from the current one, under a term.
func (w *world) update(back informer.Version, change func(*object), term uint64) {
	old, there := w.held["a"]
	o := object{Key: "a", UID: old.uid, Version: old.version - back, Value: App{Replicas: old.replicas}}
	if old.finalizers != "" {
		o.Finalizers = []string{old.finalizers}
	}
	change(&o)
	var pre []store.Precondition
	if term > 0 {
		pre = append(pre, store.IfTerm("lease", term))
	}
	got, err := w.apps.Update(context.Background(), o, pre...)
	switch {
	case term > 0 && term < w.term:
		w.want(err, store.ErrFenced)
		return
	case !there:
		w.want(err, store.ErrNotFound)
		return
	case back != 0:
		w.want(err, store.ErrConflict)
		return
	}
	w.want(err, nil)
	w.term = max(w.term, term)
	next := row{old.version, old.uid, o.Value.Replicas, strings.Join(o.Finalizers, ","), old.deleting}
	switch {
	case old.deleting && next.finalizers == "":
		next = w.tell(informer.Deleted, "a", next)
	case next != old:
		next = w.tell(informer.Modified, "a", next)
	}
	w.sameRow(got, next)
}

func (w *world) delete(key string, pre ...store.Precondition) {
	_, err := w.apps.Delete(context.Background(), key, pre...)
	old, there := w.held[key]
	switch {
	case !there:
		w.want(err, store.ErrNotFound)
		return
	case len(pre) > 0 && old.uid != w.firstA:
		w.want(err, store.ErrConflict)
		return
	}
	w.want(err, nil)
	switch {
	case old.finalizers == "":
		w.tell(informer.Deleted, key, old)
	case !old.deleting:
		old.deleting = true
		w.tell(informer.Modified, key, old)
	}
}

func (w *world) want(got, want error) {
	if !errors.Is(got, want) {
		w.t.Fatalf("%v: the store returned %v, want %v", w.ops, got, want)
	}
}

func (w *world) sameRow(got object, want row) {
	equal(w, toRow(got), want)
}

// equal compares without reflection, which the many sequences have no time for.
func equal[V comparable](w *world, got, want V) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("%v:\n got %v\nwant %v", w.ops, got, want)
	}
}

// check compares everything that can be asked.
func (w *world) check() {
	w.want(w.db.CheckInvariants(), nil)
	equal(w, w.db.Term("lease"), w.term)
	l, err := w.apps.List(context.Background())
	w.want(err, nil)
	equal(w, l.Version, informer.Version(len(w.story)))
	equal(w, len(l.Items), len(w.held))
	for i, key := range slices.Sorted(maps.Keys(w.held)) {
		equal(w, l.Items[i].Key, key)
		w.sameRow(l.Items[i], w.held[key])
	}
}

// checkWatches reads a watch from every version.
func (w *world) checkWatches() {
	for after := range len(w.story) {
		missing := len(w.story) - after
		seen := after
		for e, err := range w.apps.Watch(context.Background(), informer.Version(after)) {
			if missing > w.history {
				w.want(err, informer.ErrExpired)
				seen = len(w.story)
				break
			}
			w.want(err, nil)
			equal(w, fmt.Sprint(e.Type, " ", e.Object.Key, " ", toRow(e.Object)), w.story[seen])
			equal(w, e.Object.Version, e.Version)
			if seen++; seen == len(w.story) {
				break
			}
		}
		equal(w, seen, len(w.story))
	}
}

// operations are all that the sequences below are made of.
var operations = []struct {
	name string
	do   func(*world)
}{
	{"create a", func(w *world) { w.create("a", "") }},
	{"create a with finalizer", func(w *world) { w.create("a", "f") }},
	{"change a", func(w *world) { w.update(0, func(o *object) { o.Value.Replicas++ }, 0) }},
	{"finalize a", func(w *world) { w.update(0, func(o *object) { o.Finalizers = nil }, 0) }},
	{"delete a", func(w *world) { w.delete("a") }},
	{"delete the first a", func(w *world) { w.delete("a", store.IfUID(w.firstA)) }},
	{"change nothing", func(w *world) { w.update(0, func(*object) {}, 0) }},
	{"change an old a", func(w *world) { w.update(1, func(o *object) { o.Value.Replicas++ }, 0) }},
	{"create b", func(w *world) { w.create("b", "") }},
	{"delete b", func(w *world) { w.delete("b") }},
	{"change a in term 1", func(w *world) { w.update(0, func(o *object) { o.Value.Replicas++ }, 1) }},
	{"change nothing in term 2", func(w *world) { w.update(0, func(o *object) { o.Deleting = time.Now() }, 2) }},
}

func TestEveryShortSequenceOfWritesMatchesModel(t *testing.T) {
	for _, c := range []struct{ operations, length, history int }{
		{len(operations), effort(3, 4), 100},
		{6, effort(4, 5), 2},
	} {
		t.Run(fmt.Sprintf("%d of %d operations, history %d", c.length, c.operations, c.history), func(t *testing.T) {
			sequence := make([]int, c.length)
			for {
				w := newWorld(t, c.history)
				for _, op := range sequence {
					w.ops = append(w.ops, operations[op].name)
					operations[op].do(w)
				}
				w.check()
				w.checkWatches()
				if !next(sequence, c.operations) {
					return
				}
			}
		})
	}
}

// next counts sequence up in the given base. False means that it was the last.
func next(sequence []int, base int) bool {
	for i := len(sequence) - 1; i >= 0; i-- {
		if sequence[i]++; sequence[i] < base {
			return true
		}
		sequence[i] = 0
	}
	return false
}
