package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// steps is the number of random writes in a model case if the history of the backend is long enough.
const steps = 400

// model is the simplest possible store: a map, and its history. It takes UIDs, times, and versions from the store under test, which decides
// them.
type model struct {
	t     testing.TB
	s     store.Store[Thing]
	rand  *rand.Rand
	held  map[string]object
	story []event  // the versions of deletions are those of the last state
	past  []object // every state that any object had
}

var modelCases = []testCase{
	{"random writes match the model, and every watch yields the same history", func(t testing.TB, db Database) {
		for seed := range uint64(3) {
			n := steps
			if db.Remembers > 0 {
				n = min(n, db.Remembers)
			}
			s := db.open(fmt.Sprint("thing", seed))
			m := &model{t: t, s: s, rand: rand.New(rand.NewPCG(seed, 1)), held: map[string]object{}}
			from := list(t, s).Version
			all, step := steady(t)
			ctx, cancel := context.WithCancel(all)
			live := make(chan event, n)
			ended := make(chan struct{})
			go func() { // reads while the model writes; ends when cancel ends the watch; the case waits for it
				defer close(ended)
				for e, err := range s.Watch(ctx, from) {
					if err == nil && e.Type != informer.Bookmark {
						live <- e
					}
				}
			}()
			lists := []informer.List[object]{list(t, s)}
			starts := []int{0}
			for range n {
				step()
				m.step()
				sameSet(t, m.held, list(t, s))
				if m.rand.IntN(20) == 0 {
					lists, starts = append(lists, list(t, s)), append(starts, len(m.story))
				}
			}
			for i, l := range lists {
				held := map[string]object{}
				for _, o := range l.Items {
					held[o.Key] = o
				}
				w := watch(t, ctx, s, l.Version)
				step()
				for _, want := range m.story[starts[i]:] {
					e := w.next()
					m.same(e, want)
					fold(t, held, e)
				}
				sameSet(t, held, list(t, s))
			}
			for _, want := range m.story {
				select {
				case e := <-live:
					m.same(e, want)
				case <-ctx.Done():
					t.Fatalf("a watch that read along missed %v of %s", want.Type, text(want.Object))
				}
			}
			cancel()
			<-ended
		}
	}},
}

// same fails unless the watch yields the model's event.
func (m *model) same(got, want event) {
	m.t.Helper()
	if want.Type == informer.Deleted {
		got.Object.Version = want.Object.Version
	}
	if got.Type != want.Type {
		m.t.Fatalf("the watch yields %v of %q, the model %v of %q", got.Type, got.Object.Key, want.Type, want.Object.Key)
	}
	same(m.t, "the object of "+want.Type.String(), got.Object, want.Object)
}

// step does one random write to both, and compares the results.
func (m *model) step() {
	m.t.Helper()
	key := string(rune('a' + m.rand.IntN(4)))
	old, there := m.held[key]
	base := old
	base.Key = key
	if m.rand.IntN(4) == 0 && len(m.past) > 0 {
		base = m.past[m.rand.IntN(len(m.past))] // maybe of another key, another life, another version
		base.Key = key
	}
	var pre []store.Precondition
	wrong := false
	if m.rand.IntN(4) == 0 {
		pre = append(pre, store.IfVersion(base.Version), store.IfUID(base.UID))
		wrong = base.Version != old.Version || base.UID != old.UID
	}
	switch m.rand.IntN(6) {
	case 0:
		m.create(key, there, wrong, pre)
	case 1:
		m.delete(key, old, there, wrong, pre)
	case 2:
		m.updateStatus(base, old, there, wrong, pre)
	default:
		m.update(base, old, there, wrong, pre)
	}
}

func (m *model) create(key string, there, wrong bool, pre []store.Precondition) {
	m.t.Helper()
	o := object{Key: key, Value: m.value(), Finalizers: m.finalizers()}
	got, err := m.s.Create(m.t.Context(), o, pre...)
	switch {
	case there:
		m.refused(err, store.ErrExists)
	case wrong:
		m.refused(err, store.ErrConflict)
	default:
		must(m.t, err)
		sameContent(m.t, "what Create returned", got, o)
		m.happened(informer.Added, got)
	}
}

func (m *model) update(base, old object, there, wrong bool, pre []store.Precondition) {
	m.t.Helper()
	o := base
	if m.rand.IntN(4) > 0 {
		o.Value = m.value()
	}
	if m.rand.IntN(2) == 0 {
		o.Finalizers = m.finalizers()
	}
	if m.rand.IntN(4) == 0 {
		o.Labels = map[string]string{"n": fmt.Sprint(m.rand.IntN(2))}
	}
	given := o
	given.Value.Status.Phase = "not mine"
	o.Value.Status = old.Value.Status
	got, err := m.s.Update(m.t.Context(), given, pre...)
	switch {
	case !there:
		m.refused(err, store.ErrNotFound)
		return
	case wrong, o.Version != old.Version, o.UID != old.UID:
		m.refused(err, store.ErrConflict)
		return
	}
	must(m.t, err)
	sameContent(m.t, "what Update returned", got, o)
	wantGeneration := old.Generation
	if text(object{Value: o.Value}) != text(object{Value: old.Value}) {
		wantGeneration++
	}
	if got.Generation != wantGeneration {
		m.t.Fatalf("Update took the generation from %d to %d, want %d", old.Generation, got.Generation, wantGeneration)
	}
	switch {
	case !old.Deleting.IsZero() && len(o.Finalizers) == 0:
		m.happened(informer.Deleted, got)
	case content(o) == content(old):
		same(m.t, "what an Update that changed nothing returned", got, old)
	default:
		m.happened(informer.Modified, got)
	}
}

func (m *model) updateStatus(base, old object, there, wrong bool, pre []store.Precondition) {
	m.t.Helper()
	given := base
	given.Value = m.value()
	given.Value.Status.Phase = fmt.Sprint(m.rand.IntN(2))
	given.Finalizers = []string{"not mine"}
	got, err := m.s.UpdateStatus(m.t.Context(), given, pre...)
	switch {
	case !there:
		m.refused(err, store.ErrNotFound)
		return
	case wrong, base.Version != old.Version, base.UID != old.UID:
		m.refused(err, store.ErrConflict)
		return
	}
	must(m.t, err)
	want := old
	want.Value.Status, want.Version = given.Value.Status, got.Version
	same(m.t, "what UpdateStatus returned", got, want)
	if (got.Version != old.Version) != (content(got) != content(old)) {
		m.t.Fatalf("UpdateStatus from %s to %s", text(old), text(got))
	}
	if got.Version != old.Version {
		m.happened(informer.Modified, got)
	}
}

func (m *model) delete(key string, old object, there, wrong bool, pre []store.Precondition) {
	m.t.Helper()
	_, err := m.s.Delete(m.t.Context(), key, pre...)
	switch {
	case !there:
		m.refused(err, store.ErrNotFound)
	case wrong:
		m.refused(err, store.ErrConflict)
	case len(old.Finalizers) == 0:
		must(m.t, err)
		m.happened(informer.Deleted, old)
	case old.Deleting.IsZero():
		must(m.t, err)
		got := get(m.t, m.s, key)
		sameContent(m.t, "what is being deleted", got, old)
		if got.Deleting.IsZero() {
			m.t.Fatalf("Deleting of %q is not set", key)
		}
		m.happened(informer.Modified, got)
	default:
		must(m.t, err)
	}
}

func (m *model) happened(what informer.EventType, o object) {
	m.story = append(m.story, event{Type: what, Object: o})
	if what == informer.Deleted {
		delete(m.held, o.Key)
	} else {
		m.held[o.Key] = o
	}
	m.past = append(m.past, o)
}

func (m *model) refused(err, want error) {
	m.t.Helper()
	if !errors.Is(err, want) {
		keys := slices.Sorted(maps.Keys(m.held))
		m.t.Fatalf("the store returned %v, the model %q; it holds %q", err, want, keys)
	}
}

// value returns one of a few values, so that writes that change nothing happen.
func (m *model) value() Thing {
	if m.rand.IntN(3) == 0 {
		return Thing{}
	}
	return Thing{Size: m.rand.IntN(3), Tags: m.some("x", "y")}
}

func (m *model) finalizers() []string { return m.some("dns", "disk") }

// some returns the first few of all, and nil for none, because backends may differ for a list that is empty but not nil.
func (m *model) some(all ...string) []string {
	if n := m.rand.IntN(len(all) + 1); n > 0 {
		return all[:n]
	}
	return nil
}
