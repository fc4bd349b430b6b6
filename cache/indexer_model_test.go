package cache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
)

// model is what an Indexer must look like, the slow way: a list of keys, and for each value of each index a list too.
type model struct {
	keys    []string
	objs    map[string]*pod
	indexes []*modelIndex
}

type modelIndex struct {
	values  func(*pod) []string
	order   []string
	members map[string][]string
}

// become makes keys and objs the content: remaining keys keep their places, and new keys go to the end.
func (m *model) become(keys []string, objs map[string]*pod) {
	m.keys, m.objs = keys, objs
	for _, ix := range m.indexes {
		ix.become(keys, objs)
	}
}

func (ix *modelIndex) become(keys []string, objs map[string]*pod) {
	members := make(map[string][]string)
	for value, names := range ix.members {
		for _, name := range names {
			if p := objs[name]; p != nil && slices.Contains(ix.values(p), value) {
				members[value] = append(members[value], name)
			}
		}
	}
	for _, name := range keys {
		for _, value := range ix.values(objs[name]) {
			if !slices.Contains(members[value], name) {
				members[value] = append(members[value], name)
			}
		}
	}
	ix.order = slices.DeleteFunc(ix.order, func(value string) bool { return len(members[value]) == 0 })
	for _, name := range keys {
		for _, value := range ix.values(objs[name]) {
			if !slices.Contains(ix.order, value) {
				ix.order = append(ix.order, value)
			}
		}
	}
	ix.members = members
}

// with returns the content after an Upsert, and without after a Delete.
func (m *model) with(p *pod) ([]string, map[string]*pod) {
	keys, objs := m.without("")
	objs[p.name] = p
	if !slices.Contains(keys, p.name) {
		keys = append(keys, p.name)
	}
	return keys, objs
}

func (m *model) without(deleted string) ([]string, map[string]*pod) {
	objs := make(map[string]*pod)
	var keys []string
	for _, name := range m.keys {
		if name != deleted {
			keys, objs[name] = append(keys, name), m.objs[name]
		}
	}
	return keys, objs
}

// copy returns the model as it is now.
func (m *model) copy() model {
	c := model{keys: m.keys, objs: m.objs} // which are never written to again
	for _, ix := range m.indexes {
		c.indexes = append(c.indexes, &modelIndex{order: slices.Clone(ix.order), members: ix.members})
	}
	return c
}

// pair is an Indexer beside its model, and snapshots beside what the model was at their time.
type pair struct {
	x         *cache.Indexer[string, *pod]
	indexes   []*cache.Index[string, string, *pod]
	model     model
	snapshots []*cache.Snapshot[string, *pod]
	were      []model
}

func newPair() *pair {
	p := &pair{x: newPods()}
	p.addIndex(podNodes)
	return p
}

func (p *pair) addIndex(values func(*pod) []string) {
	p.indexes = append(p.indexes, cache.AddIndex(p.x, values))
	ix := &modelIndex{values: values}
	ix.become(p.model.keys, p.model.objs)
	p.model.indexes = append(p.model.indexes, ix)
}

func (p *pair) upsert(obj *pod) error {
	want := p.model.objs[obj.name]
	old, existed := p.x.Upsert(obj)
	p.model.become(p.model.with(obj))
	if old != want || existed != (want != nil) {
		return fmt.Errorf("Upsert(%v) = %v, %v, want %v", obj, old, existed, want)
	}
	return nil
}

func (p *pair) delete(name string) error {
	want := p.model.objs[name]
	old, existed := p.x.Delete(name)
	p.model.become(p.model.without(name))
	if old != want || existed != (want != nil) {
		return fmt.Errorf("Delete(%s) = %v, %v, want %v", name, old, existed, want)
	}
	return nil
}

func (p *pair) replace(list ...*pod) {
	p.x.Replace(list)
	var keys, fresh []string
	objs := make(map[string]*pod)
	for _, obj := range list {
		if objs[obj.name] == nil && p.model.objs[obj.name] == nil {
			fresh = append(fresh, obj.name)
		}
		objs[obj.name] = obj
	}
	for _, name := range p.model.keys {
		if objs[name] != nil {
			keys = append(keys, name)
		}
	}
	p.model.become(append(keys, fresh...), objs)
}

// snapshot takes one more, and forgets all but the last few.
func (p *pair) snapshot() {
	p.snapshots, p.were = append(p.snapshots, p.x.Snapshot()), append(p.were, p.model.copy())
	if len(p.were) > 3 {
		p.snapshots, p.were = p.snapshots[1:], p.were[1:]
	}
}

// check compares all that can be asked.
func (p *pair) check() error {
	if err := cache.CheckInvariants(p.x); err != nil {
		return err
	}
	if err := same(p.x, p.indexes, &p.model); err != nil {
		return err
	}
	for i, s := range p.snapshots {
		var in []*cache.Index[string, string, *pod]
		for _, ix := range p.indexes[:len(p.were[i].indexes)] {
			in = append(in, ix.In(s))
		}
		if err := same(s, in, &p.were[i]); err != nil {
			return fmt.Errorf("snapshot %d of %d: %w", i, len(p.snapshots), err)
		}
	}
	return nil
}

// view is an Indexer or a Snapshot.
type view interface {
	cache.Reader[string, *pod]
	Len() int
}

func same(x view, indexes []*cache.Index[string, string, *pod], m *model) error {
	if err := sameObjects("All", x.All(), m.keys, m.objs); err != nil {
		return err
	}
	if x.Len() != len(m.keys) {
		return fmt.Errorf("Len = %d, want %d", x.Len(), len(m.keys))
	}
	for _, name := range []string{"a", "k1", "k2"} {
		if p, ok := x.Get(name); p != m.objs[name] || ok != (p != nil) {
			return fmt.Errorf("Get(%s) = %v, %v, want %v", name, p, ok, m.objs[name])
		}
	}
	for i, ix := range indexes {
		m, objs := m.indexes[i], m.objs
		if got := slices.Collect(ix.Values()); !slices.Equal(got, m.order) {
			return fmt.Errorf("Values = %v, want %v", got, m.order)
		}
		for _, value := range []string{"1", "2", "3"} {
			if ix.Len(value) != len(m.members[value]) {
				return fmt.Errorf("Len(%s) = %d, want %d", value, ix.Len(value), len(m.members[value]))
			}
			if err := sameObjects(value, ix.All(value), m.members[value], objs); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameObjects(what string, seq func(func(string, *pod) bool), keys []string, objs map[string]*pod) error {
	n := 0
	for name, obj := range seq {
		if n >= len(keys) || keys[n] != name || objs[name] != obj {
			return fmt.Errorf("%s yields %s, %v at %d, want those of %v", what, name, obj, n, keys)
		}
		n++
	}
	if n != len(keys) {
		return fmt.Errorf("%s yields %d, want %v", what, n, keys)
	}
	return nil
}

// actions are the steps of the exhaustive test: two keys, all shapes of values, a late index.
func (p *pair) actions() []func() error {
	variants := [][]string{nil, {"1"}, {"2", "1", "2"}}
	var actions []func() error
	for _, name := range []string{"a", "b"} {
		for _, nodes := range variants {
			actions = append(actions, func() error { return p.upsert(&pod{name: name, nodes: nodes}) })
		}
		actions = append(actions, func() error { return p.delete(name) })
	}
	replace := func(list ...*pod) func() error {
		return func() error { p.replace(list...); return nil }
	}
	return append(actions,
		replace(),
		replace(&pod{name: "b", nodes: []string{"2"}}, &pod{name: "a", nodes: []string{"1", "2"}}),
		replace(&pod{name: "a", nodes: []string{"3"}}, &pod{name: "c", nodes: []string{"1"}}, &pod{name: "a", nodes: []string{"2"}}),
		func() error {
			p.addIndex(func(p *pod) []string { return []string{fmt.Sprint(len(p.nodes))} })
			return nil
		},
		func() error { p.snapshot(); return nil },
	)
}

func TestEveryShortIndexerHistoryMatchesModel(t *testing.T) {
	t.Parallel()
	n, length := len(newPair().actions()), effort(3, 4)
	histories := 0
	var extend func(history []int)
	extend = func(history []int) {
		histories++
		p := newPair()
		actions := p.actions()
		for _, a := range history {
			if err := actions[a](); err != nil {
				t.Fatalf("%v: %v", history, err)
			}
		}
		if err := p.check(); err != nil {
			t.Fatalf("%v: %v", history, err)
		}
		if len(history) < length {
			for a := range n {
				extend(append(slices.Clip(history), a))
			}
		}
	}
	extend(nil)
	t.Logf("%d histories", histories)
}

func TestLongIndexerHistoriesMatchModel(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPair()
		for i := range 600 {
			if err := p.randomly(r, 40, i); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
			if err := p.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
	}
}

// randomly takes one step with one of so many keys. Now and then all are deleted, or all replaced.
func (p *pair) randomly(r *rand.Rand, keys, n int) error {
	random := func() *pod {
		obj := &pod{name: fmt.Sprint("k", r.IntN(keys)), n: n}
		for range r.IntN(4) {
			obj.nodes = append(obj.nodes, fmt.Sprint(1+r.IntN(3)))
		}
		return obj
	}
	switch k := r.IntN(100); {
	case k < 60:
		return p.upsert(random())
	case k < 94:
		return p.delete(random().name)
	case k < 96:
		p.snapshot()
		return nil
	case k < 98:
		for _, name := range p.model.keys {
			if err := p.delete(name); err != nil {
				return err
			}
		}
		return nil
	default:
		var list []*pod
		for range r.IntN(keys) {
			list = append(list, random())
		}
		p.replace(list...)
		return nil
	}
}

func FuzzIndexer(f *testing.F) {
	f.Add(uint64(1), 10, 50)
	f.Fuzz(func(t *testing.T, seed uint64, keys, steps int) {
		if keys < 1 || keys > 100 || steps > 1000 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 5))
		p := newPair()
		for i := range steps {
			require.NoError(t, p.randomly(r, keys, i))
			require.NoError(t, p.check())
		}
	})
}
