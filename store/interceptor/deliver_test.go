package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// eventsUntil returns the events of a watch as "type key size", up to a bookmark that comes once the watch is idle, or the error.
func eventsUntil(ctx context.Context, s store.Store[thing]) (events []string) {
	start := time.Now()
	for e, err := range s.Watch(ctx, 0) {
		switch {
		case err != nil:
			return append(events, err.Error())
		case e.Type != informer.Bookmark:
			events = append(events, fmt.Sprint(e.Type, " ", e.Object.Key, " ", e.Object.Value.Size))
		case time.Since(start) > 10*time.Second:
			return events
		}
	}
	return events
}

func TestEventFaults(t *testing.T) {
	all := []string{"Added web 0", "Modified web 1", "Modified web 2", "Added new 0", "Deleted web 2", "Added web 3"}
	nothing := func(context.Context) error { return nil }
	refuse := func(context.Context) error { return errors.New("refused") }
	for name, c := range map[string]struct {
		rule interceptor.Rule
		want string // events by their places in all, and what else ends the watch
		hits int
	}{
		"Skip, all":                          {interceptor.Rule{Times: -1, Fault: interceptor.Skip()}, "2 3 4 5", 2},
		"Skip, one that is followed":         {interceptor.Rule{Nth: 2, Fault: interceptor.Skip()}, "0 2 3 4 5", 1},
		"Skip, one that another key follows": {interceptor.Rule{Nth: 3, Fault: interceptor.Skip()}, "0 1 2 3 4 5", 0},
		"Skip, a deletion":                   {interceptor.Rule{Nth: 5, Fault: interceptor.Skip()}, "0 1 2 3 4 5", 0},
		"Skip, the last one":                 {interceptor.Rule{Nth: 6, Fault: interceptor.Skip()}, "0 1 2 3 4 5", 0},
		"IllegalDrop":                        {interceptor.Rule{Nth: 3, Fault: interceptor.IllegalDrop()}, "0 1 3 4 5", 1},
		"IllegalDrop, a deletion":            {interceptor.Rule{Key: "web", Nth: 4, Fault: interceptor.IllegalDrop()}, "0 1 2 3 5", 1},
		"IllegalRepeat":                      {interceptor.Rule{Nth: 4, Fault: interceptor.IllegalRepeat()}, "0 1 2 3 3 4 5", 1},
		"IllegalReorder":                     {interceptor.Rule{Nth: 2, Fault: interceptor.IllegalReorder()}, "0 2 1 3 4 5", 1},
		"IllegalReorder, all":                {interceptor.Rule{Times: -1, Fault: interceptor.IllegalReorder()}, "1 0 3 2 5 4", 3},
		"IllegalReorder, the last one":       {interceptor.Rule{Nth: 6, Fault: interceptor.IllegalReorder()}, "0 1 2 3 4 5", 1},
		"Fail":                               {interceptor.Rule{Key: "new", Fault: interceptor.Fail(errors.New("refused"))}, "0 1 2 refused", 1},
		"Before that refuses":                {interceptor.Rule{Nth: 2, Fault: interceptor.Before(refuse)}, "0 refused", 1},
		"Before that succeeds":               {interceptor.Rule{Times: -1, Fault: interceptor.Before(nothing)}, "0 1 2 3 4 5", 6},
		"Hang until the context ends":        {interceptor.Rule{Nth: 3, Fault: interceptor.Hang()}, "0 1 context deadline exceeded", 1},
		"a rule that looks at the type":      {interceptor.Rule{When: func(c interceptor.Call) bool { return c.Args.Type == informer.Deleted }, Fault: interceptor.IllegalDrop()}, "0 1 2 3 5", 1},
		"a rule that looks at the object":    {interceptor.Rule{When: func(c interceptor.Call) bool { return c.Args.Object.(object).Value.Size == 3 }, Fault: interceptor.IllegalDrop()}, "0 1 2 3 4", 1},
		"a rule for another caller":          {interceptor.Rule{Caller: "other", Fault: interceptor.IllegalDrop()}, "0 1 2 3 4 5", 0},
		"a rule for another kind":            {interceptor.Rule{Kind: "other", Fault: interceptor.IllegalDrop()}, "0 1 2 3 4 5", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, memory := intercepted(t)
				for size := 1; size <= 2; size++ {
					require.NoError(t, errOf(store.Patch(t.Context(), memory, "web", func(o *object) error { o.Value.Size = size; return nil })))
				}
				require.NoError(t, errOf(memory.Create(t.Context(), object{Key: "new"})))
				require.NoError(t, errOf(memory.Delete(t.Context(), "web")))
				require.NoError(t, errOf(memory.Create(t.Context(), object{Key: "web", Value: thing{Size: 3}})))
				require.Equal(t, all, eventsUntil(t.Context(), memory), "the events without a rule")
				c.rule.Op = "event"
				in := s.Inject(c.rule)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got := strings.Join(eventsUntil(ctx, s), ", ")
				for place, event := range all {
					got = strings.ReplaceAll(got, event, fmt.Sprint(place))
				}
				got = strings.ReplaceAll(strings.ReplaceAll(got, "store: watch thing: ", ""), ",", "")
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.hits, in.Hits())
				last := s.Calls()[len(s.Calls())-1]
				assert.Equal(t, c.hits > 0, last.Hit)
				assert.True(t, last.Done)
				assert.Len(t, s.Calls(), 1, "an event is no call")
			})
		})
	}
}

func TestHeldWatchesLagThenMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memory := intercepted(t)
		inf := must(informer.New(s, store.Key, informer.Config{Name: "things"}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }() // ends with cancel; waited for below
		<-inf.Synced()
		lag := s.Inject(interceptor.Rule{Op: "event", Times: -1, Fault: interceptor.Hang()})
		require.NoError(t, errOf(memory.Create(ctx, object{Key: "new"})))
		require.NoError(t, errOf(memory.Delete(ctx, "web")))
		synctest.Wait()
		_, seesNew := inf.Get("new")
		_, seesWeb := inf.Get("web")
		assert.True(t, !seesNew && seesWeb, "the cache is stale")
		_, err := s.Get(ctx, "new")
		require.NoError(t, err, "reads of the store are fresh")
		lag.Remove()
		synctest.Wait()
		_, seesNew = inf.Get("new")
		_, seesWeb = inf.Get("web")
		assert.True(t, seesNew && !seesWeb)
		assert.Len(t, s.Calls(), 3, "a list, a watch that did not break, and the get")
		cancel()
		<-done
	})
}

// A cache converges after everything that a real source may do, but not after a lost event.
func TestCacheSurvivesLegalFaultsButNotLostEvent(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		faults []interceptor.Fault
		legal  bool
	}{
		"legal":   {[]interceptor.Fault{interceptor.Skip(), interceptor.Fail(broken), interceptor.Fail(informer.ErrExpired), interceptor.Hang()}, true},
		"illegal": {[]interceptor.Fault{interceptor.IllegalDrop()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			differed := 0
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, 1))
					s, memory := intercepted(t)
					inf := must(informer.New(s, store.Key, informer.Config{Name: "things", Logger: slog.New(slog.DiscardHandler)}))
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- inf.Run(ctx) }() // ends with cancel; waited for below
					<-inf.Synced()
					var last informer.Version
					for range 60 {
						if r.IntN(4) == 0 {
							s.Inject(interceptor.Rule{Op: "event", Nth: 1 + r.IntN(3), Times: 1 + r.IntN(3), Fault: c.faults[r.IntN(len(c.faults))]})
						}
						key := fmt.Sprint("k", r.IntN(4))
						if r.IntN(3) == 0 {
							_, _ = memory.Delete(ctx, key)
						} else {
							o, err := store.CreateOrUpdate(ctx, memory, key, func(o *object) error { o.Value.Size++; return nil })
							require.NoError(t, err)
							last = o.Version
						}
						if r.IntN(3) == 0 {
							time.Sleep(time.Duration(r.IntN(3)) * time.Second)
						}
					}
					s.Reset()
					require.NoError(t, inf.WaitForVersion(ctx, last))
					time.Sleep(time.Minute) // for a deletion after that
					l, err := memory.List(ctx)
					require.NoError(t, err)
					same := inf.Indexer().Len() == len(l.Items)
					for _, o := range l.Items {
						got, ok := inf.Get(o.Key)
						same = same && ok && got.Version == o.Version
					}
					if !same {
						differed++
					}
					cancel()
					<-done
				})
			}
			assert.Equal(t, c.legal, differed == 0, "%d caches of 20 differ from their store", differed)
		})
	}
}
