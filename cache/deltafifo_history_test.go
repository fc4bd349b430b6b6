package cache_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

// history runs one sequence of actions on a DeltaFIFO and on the model.
type history struct {
	actions []byte
	equal   int  // in so many of 256 calls the version stays the same
	compare bool // the queue compares lists with what is known
	x       *cache.Indexer[string, *pod]
	f       *fifo
	m       fifoModel
	n       int    // the last state
	during  func() // runs while Replace reads what is known
	failure error  // the first difference
}

// racing is the known objects of the queue, with a consumer that moves keys while they are being read.
type racing struct{ h *history }

func (r racing) Get(key string) (*pod, bool) { return r.h.x.Get(key) }

func (r racing) All() iter.Seq2[string, *pod] {
	return func(yield func(string, *pod) bool) {
		for key, p := range r.h.x.All() {
			if !yield(key, p) {
				return
			}
		}
		if during := r.h.during; during != nil {
			r.h.during = nil
			during()
		}
	}
}

// newHistory begins with a cache that is empty, or warm.
func newHistory(actions []byte, equal int, warm, compare bool) *history {
	h := &history{actions: actions, equal: equal, compare: compare, x: newPods()}
	cfg := cache.DeltaFIFOConfig[string, *pod]{KnownObjects: racing{h}}
	if compare {
		cfg.Equal = func(known, listed *pod) bool { return known == listed }
	}
	h.f = must(cache.NewDeltaFIFO(podName, cfg))
	h.m.failed, h.m.truth = make(map[string][]*operation), make(map[string]*pod)
	if warm {
		h.m.truth["b"] = h.pod("b")
		h.x.Upsert(h.m.truth["b"])
	}
	return h
}

func (h *history) pod(name string) *pod {
	h.n++
	return &pod{name: name, n: h.n}
}

func (h *history) version() uint64 {
	if h.n*37%256 >= h.equal || h.m.next == 0 {
		h.m.next += 10
	}
	return h.m.next
}

func (h *history) fail(format string, args ...any) {
	if h.failure == nil {
		h.failure = fmt.Errorf(format, args...)
	}
}

func (h *history) change(t cache.DeltaType, name string) {
	d := cache.Delta[*pod]{Type: t, Object: h.pod(name)}
	v := h.version()
	call := map[cache.DeltaType]func(*pod, uint64) error{cache.Added: h.f.Add, cache.Updated: h.f.Update, cache.Deleted: h.f.Delete}[t]
	if err := call(d.Object, v); err != nil {
		h.fail("%v: %v", t, err)
	}
	h.m.change(d, v)
}

func (h *history) replace(known *[]string, names ...string) {
	var list []*pod
	for _, name := range names {
		list = append(list, h.pod(name))
	}
	h.list(known, list)
}

// list reads known after the call, in which it may have grown.
func (h *history) list(known *[]string, list []*pod) {
	v, taken := h.version(), len(h.m.taken)
	if err := h.f.Replace(list, v); err != nil {
		h.fail("Replace: %v", err)
	}
	h.m.replace(list, v, *known, func(p *pod) bool {
		cached, _ := h.x.Get(p.name)
		return h.compare && cached == p && !slices.Contains(h.m.taken[taken:], p.name)
	})
}

// popDuring lets the consumer take a key out while Replace reads the cache.
func (h *history) popDuring(known *[]string, result error) {
	h.during = func() {
		taken := len(h.m.taken)
		h.pop(false, result)
		*known = append(*known, h.m.taken[taken:]...) // they may be known now, or not: it does no harm
	}
}

func (h *history) cached() (list []*pod) {
	for _, p := range h.x.All() {
		list = append(list, p)
	}
	return list
}

// pop pops one key, with actions in the middle. They are those that follow in h.actions, up to one that ends it.
func (h *history) pop(middle bool, result error) {
	if h.m.current != nil {
		return // one consumer
	}
	want := h.m.pop(h.x)
	told := false
	popped, err := h.f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
		told = true
		if want == nil || key != h.m.current.key || !slices.Equal(slices.Collect(deltas.All()), want) || initial != h.m.current.initial {
			h.fail("Pop tells %s, want %s", line(key, deltas.All(), initial), line("", slices.Values(want), false))
			return nil
		}
		if middle {
			h.check()
			result = h.run(true)
		}
		if result == nil {
			apply(h.x, key, deltas)
		}
		return result
	})
	if popped != told || told != (want != nil) || told && err != result {
		h.fail("Pop = %v, %v, told %v, want %v", popped, err, told, want)
	}
	if h.m.current != nil {
		h.m.finish(result == nil)
	}
}

var errProcess = errors.New("process failed")

// run takes the actions one by one. Inside of a pop it ends with the result of that.
func (h *history) run(inside bool) error {
	for len(h.actions) > 0 && h.failure == nil {
		action := h.actions[0]
		h.actions = h.actions[1:]
		known := names(h.x.All())
		switch action % numActions {
		case 0:
			h.change(cache.Added, "a")
		case 1:
			h.change(cache.Deleted, "a")
		case 2:
			h.replace(&known)
		case 3:
			h.replace(&known, "a")
		case 4:
			h.pop(true, nil)
		case 5:
			if inside {
				return nil
			}
			h.pop(false, nil)
		case 6:
			if inside {
				return errProcess
			}
			h.pop(false, errProcess)
		case 7:
			if !inside {
				h.popDuring(&known, nil)
			}
			h.replace(&known, "b")
		case 8:
			h.change(cache.Added, "b")
		case 9:
			h.f.Resync()
			h.m.resync(known)
		case 10:
			h.change(cache.Updated, "a")
		case 11:
			h.change(cache.Deleted, "b")
		case 12:
			h.replace(&known, "b", "a", "b")
		case 13:
			v := h.version()
			h.f.Bookmark(v)
			h.m.operation(v, true)
		case 14: // the source says that everything is as the cache has it
			h.list(&known, h.cached())
		case 15:
			if !inside {
				h.popDuring(&known, nil)
			}
			h.list(&known, h.cached())
		}
		h.check()
	}
	return nil
}

const numActions = 16

func (h *history) check() {
	if err := h.f.CheckInvariants(); err != nil {
		h.fail("%w", err)
	}
	got, want := h.f.Version(), h.m.version()
	if got > want || got != want && !h.m.resyncs {
		h.fail("Version = %d, want %d", got, want)
	}
	if got, want := h.f.Len(), len(h.m.queue); got != want {
		h.fail("Len = %d, want %d", got, want)
	}
	if got, want := h.f.HasSynced(), h.m.synced; got != want {
		h.fail("HasSynced = %v, want %v", got, want)
	}
}

// finish drains the queue. The cache must end up like the source, and the version at the last one.
func (h *history) finish() error {
	_ = h.run(false)
	if len(h.m.failed) > 0 {
		known := names(h.x.All())
		h.replace(&known, slices.Sorted(maps.Keys(h.m.truth))...)
	}
	for h.f.Len() > 0 && h.failure == nil {
		h.pop(false, nil)
		h.check()
	}
	if got := maps.Collect(h.x.All()); !maps.Equal(got, h.m.truth) {
		h.fail("the cache ends with %v, the source with %v", got, h.m.truth)
	}
	if v := h.f.Version(); v != h.m.next {
		h.fail("Version ends with %d, want %d", v, h.m.next)
	}
	return h.failure
}

func TestEveryShortDeltaFIFOHistoryMatchesModel(t *testing.T) {
	t.Parallel()
	histories := 0
	var extend func(history []byte, actions byte, length int)
	extend = func(history []byte, actions byte, length int) {
		if len(history) == length {
			histories++
			if err := newHistory(history, 0, actions == 8, true).finish(); err != nil {
				t.Fatalf("%v: %v", history, err)
			}
			return
		}
		for a := range actions {
			extend(append(slices.Clip(history), a), actions, length)
		}
	}
	extend(nil, numActions, effort(3, 4))
	if !underRace {
		extend(nil, 8, effort(4, 5))
	}
	t.Logf("%d histories", histories)
}

func TestLongDeltaFIFOHistoriesMatchModel(t *testing.T) {
	seeds := uint64(500)
	if underRace {
		seeds = 50
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 4))
		actions := make([]byte, 60)
		for i := range actions {
			actions[i] = byte(r.IntN(numActions))
			if seed%2 == 0 && actions[i] == 9 {
				actions[i] = 5 // without Sync the version is exact
			}
		}
		if err := newHistory(actions, []int{0, 64}[seed/2%2], seed%3 == 0, seed%5 != 0).finish(); err != nil {
			t.Fatalf("seed %d, %v: %v", seed, actions, err)
		}
	}
}
