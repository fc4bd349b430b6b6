package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/trim"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/interceptor"
	"github.com/setpoint-go/setpoint/store/storetest"
)

type (
	thing        = storetest.Thing
	object       = store.Object[thing]
	intercepting = interceptor.Store[thing]
)

// history is the number of changes that the databases keep.
const history = 40

// intercepted returns an interceptor in front of a store in memory, which holds "web", and that store.
func intercepted(t *testing.T) (*intercepting, store.Store[thing]) {
	memory, err := store.Open[thing](store.NewMemory(store.MemoryConfig{History: history}), "thing", store.Config[thing]{})
	require.NoError(t, err)
	_, err = memory.Create(t.Context(), object{Key: "web"})
	require.NoError(t, err)
	return interceptor.New[thing](memory), memory
}

// calls are all operations with a key, and a list, on an interceptor that holds "web".
var calls = map[string]func(ctx context.Context, s store.Store[thing]) error{
	"get": func(ctx context.Context, s store.Store[thing]) error {
		_, err := s.Get(ctx, "web")
		return err
	},
	"list": func(ctx context.Context, s store.Store[thing]) error {
		_, err := s.List(ctx)
		return err
	},
	"create": func(ctx context.Context, s store.Store[thing]) error {
		_, err := s.Create(ctx, object{Key: "new"})
		return err
	},
	"update": func(ctx context.Context, s store.Store[thing]) error {
		_, err := s.Update(ctx, object{Key: "web", Version: 1, Value: thing{Size: 1}})
		return err
	},
	"update status": func(ctx context.Context, s store.Store[thing]) error {
		_, err := s.UpdateStatus(ctx, object{Key: "web", Version: 1, Value: thing{Status: storetest.Status{Phase: "up"}}})
		return err
	},
	"delete": func(ctx context.Context, s store.Store[thing]) error { return errOf(s.Delete(ctx, "web")) },
}

// keyOf is the key of a call of the table above.
func keyOf(op string) string {
	return map[string]string{"list": "", "create": "new"}[op] + map[bool]string{true: "web"}[op != "list" && op != "create"]
}

func isWrite(op string) bool { return op != "get" && op != "list" }

// version is that of the store: it tells whether anything was written.
func version(t *testing.T, s store.Store[thing]) informer.Version {
	l, err := s.List(context.Background())
	require.NoError(t, err)
	return l.Version
}

func TestInterceptorWithoutRulesIsAStore(t *testing.T) {
	storetest.RunInBubbles(t, func(*testing.T) storetest.Database {
		db := store.NewMemory(store.MemoryConfig{History: history})
		return storetest.Database{
			Handles:   []backend.Backend{db, db},
			Through:   func(s store.Store[thing]) store.Store[thing] { return interceptor.New(s) },
			Remembers: history,
			Expire:    func(kind string) error { return trim.History(db, kind, history) },
		}
	})
}

func TestEveryOperationFailsOnDemand(t *testing.T) {
	refused := errors.New("no")
	own := &store.Error{Op: "x", Err: store.ErrFenced}
	for op, call := range calls {
		for name, c := range map[string]struct {
			fault   interceptor.Fault
			want    error
			applied bool
		}{
			"Fail":                 {interceptor.Fail(refused), refused, false},
			"LoseRequest":          {interceptor.LoseRequest(), interceptor.ErrLost, false},
			"LoseReply":            {interceptor.LoseReply(), interceptor.ErrLost, true},
			"Before":               {interceptor.Before(func(context.Context) error { return refused }), refused, false},
			"Before that succeeds": {interceptor.Before(func(context.Context) error { return nil }), nil, true},
			"an error of its own":  {interceptor.Fail(own), own, false},
		} {
			t.Run(op+"/"+name, func(t *testing.T) {
				s, memory := intercepted(t)
				in := s.Inject(interceptor.Rule{Op: op, Key: keyOf(op), Fault: c.fault})
				err := call(t.Context(), s)
				require.ErrorIs(t, err, c.want)
				var e *store.Error
				if c.want == own {
					assert.Same(t, own, err, "as it is")
				} else if errors.As(err, &e) {
					assert.Equal(t, store.Error{Op: op, Kind: "thing", Key: keyOf(op), Err: c.want}, *e)
				}
				assert.Equal(t, isWrite(op) && c.applied, version(t, memory) > 1, "applied")
				assert.Equal(t, 1, in.Hits())
				assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: op, Key: keyOf(op), Done: true, Err: err, Hit: true}}, s.Calls())
				if !c.applied {
					require.NoError(t, call(t.Context(), s), "the next call is not affected")
				}
				assert.Equal(t, 1, in.Hits())
			})
		}
	}
}

func TestHangingCallEndsWithContextUnsent(t *testing.T) {
	for op, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			s, memory := intercepted(t)
			s.Inject(interceptor.Rule{Op: op, Fault: interceptor.Hang()})
			cause := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, cause)
			defer cancel()
			start := time.Now()
			err := call(ctx, s)
			require.ErrorIs(t, err, cause, op)
			var e *store.Error
			require.ErrorAs(t, err, &e, op)
			assert.Equal(t, time.Hour, time.Since(start))
			assert.EqualValues(t, 1, version(t, memory), op)
		})
	}
}

func TestHangingCallContinuesWhenRuleIsRemoved(t *testing.T) {
	for op, call := range calls {
		for name, remove := range map[string]func(*intercepting, *interceptor.Injection){
			"Remove": func(_ *intercepting, in *interceptor.Injection) { in.Remove(); in.Remove() },
			"Reset":  func(s *intercepting, _ *interceptor.Injection) { s.Reset() },
		} {
			t.Run(op+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, memory := intercepted(t)
					in := s.Inject(interceptor.Rule{Times: -1, Fault: interceptor.Hang()})
					var wg sync.WaitGroup
					wg.Go(func() { assert.NoError(t, call(t.Context(), s)) }) // ends when the rule is removed; waited for below
					synctest.Wait()
					assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: op, Key: keyOf(op), Hit: true}}, s.Calls(), "under way")
					assert.EqualValues(t, 1, version(t, memory))
					remove(s, in)
					wg.Wait()
					assert.Equal(t, []interceptor.Call{{Kind: "thing", Op: op, Key: keyOf(op), Done: true, Hit: true}}, s.Calls())
					assert.Equal(t, isWrite(op), version(t, memory) > 1, "applied")
				})
			})
		}
	}
}

func TestRuleMatchesNamedCalls(t *testing.T) {
	for nth := range 4 {
		for times := -1; times <= 3; times++ {
			s, _ := intercepted(t)
			in := s.Inject(interceptor.Rule{Op: "get", Key: "web", Nth: nth, Times: times, Fault: interceptor.LoseRequest()})
			hits := 0
			for call := 1; call <= 7; call++ {
				_, _ = s.Get(t.Context(), "other") // does not count
				_, _ = s.Delete(t.Context(), "web", store.IfUID("x"))
				_, err := s.Get(t.Context(), "web")
				from, to := max(nth, 1), max(nth, 1)+max(times, 1)-1
				if times < 0 {
					to = 7
				}
				hit := from <= call && call <= to
				if hit {
					hits++
				}
				assert.Equal(t, hit, err != nil, "call %d, Nth %d, Times %d", call, nth, times)
			}
			assert.Equal(t, hits, in.Hits())
		}
	}
}

func TestEachRuleCountsAllCallsAndFirstMatchWins(t *testing.T) {
	s, _ := intercepted(t)
	first, second := errors.New("first"), errors.New("second")
	one := s.Inject(interceptor.Rule{Op: "get", Nth: 2, Fault: interceptor.Fail(first)})
	two := s.Inject(interceptor.Rule{Times: 3, Fault: interceptor.Fail(second)})
	for i, want := range []error{second, first, second, nil} {
		_, err := s.Get(t.Context(), "web")
		assert.ErrorIs(t, err, want, i)
	}
	assert.Equal(t, 1, one.Hits())
	assert.Equal(t, 2, two.Hits())
	all := s.Inject(interceptor.Rule{Times: -1, Fault: interceptor.LoseRequest()})
	_, err := s.Get(t.Context(), "web")
	require.ErrorIs(t, err, interceptor.ErrLost)
	all.Remove()
	_, err = s.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, 1, all.Hits())
}

func TestCallsAreRecordedInOrder(t *testing.T) {
	s, _ := intercepted(t)
	_, notFound := s.Get(t.Context(), "none")
	_, err := s.Select(t.Context(), store.Selector{Prefix: "x/"})
	require.NoError(t, err)
	assert.Empty(t, s.Writes(), "no write was tried")
	exists := calls["create"](t.Context(), s)
	require.NoError(t, exists)
	exists = calls["create"](t.Context(), s)
	assert.Equal(t, []interceptor.Call{
		{Kind: "thing", Op: "get", Key: "none", Done: true, Err: notFound},
		{Kind: "thing", Op: "list", Done: true},
		{Kind: "thing", Op: "create", Key: "new", Done: true},
		{Kind: "thing", Op: "create", Key: "new", Done: true, Err: exists},
	}, s.Calls())
	require.ErrorIs(t, exists, store.ErrExists)
	assert.Equal(t, s.Calls()[2:], s.Writes())
	s.ForgetCalls()
	assert.Empty(t, s.Calls())
}

func TestRuleThatNeverMatchesPanics(t *testing.T) {
	s, _ := intercepted(t)
	ok := interceptor.LoseReply()
	for want, rule := range map[string]interceptor.Rule{
		`interceptor: Inject: "open" is no operation of a store`:     {Op: "open", Fault: ok},
		`interceptor: Inject: a list has no key`:                     {Op: "list", Key: "x", Fault: ok},
		`interceptor: Inject: a watch has no key`:                    {Op: "watch", Key: "x", Fault: ok},
		`interceptor: Inject: Nth is -1`:                             {Nth: -1, Fault: ok},
		`interceptor: Inject: After is 1 for the operation "get"`:    {Op: "get", After: 1, Fault: ok},
		`interceptor: Inject: After is -1 for the operation "watch"`: {Op: "watch", After: -1, Fault: ok},
		`interceptor: Inject: a rule without a fault`:                {Op: "get"},
		`interceptor: Inject: a fault of nil`:                        {Fault: interceptor.Fail(nil)},

		`interceptor: Inject: an event has no request and no reply`:                {Op: "event", Fault: ok},
		`interceptor: Inject: the fault is for events, and the operation is "get"`: {Op: "get", Fault: interceptor.Skip()},
		`interceptor: Inject: the fault is for events, and the operation is ""`:    {Fault: interceptor.IllegalDrop()},
		`interceptor: Inject: After is 1 for the operation "event"`:                {Op: "event", After: 1, Fault: interceptor.Hang()},
	} {
		assert.PanicsWithValue(t, want, func() { s.Inject(rule) })
	}
	assert.Panics(t, func() { s.Inject(interceptor.Rule{Fault: interceptor.Before(nil)}) })
}

// Rules are added and removed during concurrent writes and watches. A rule matched each failed call, and all other
// calls take effect.
func TestConcurrentCallsWithChangingRules(t *testing.T) {
	s, memory := intercepted(t)
	ctx, stop := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	others.Go(func() { // ends with stop; waited for below
		for ctx.Err() == nil {
			for range s.Watch(ctx, 0) {
			}
		}
	})
	others.Go(func() { // ends with stop; waited for below
		for n := 0; ctx.Err() == nil; n++ {
			in := s.Inject(interceptor.Rule{Op: []string{"", "create", "watch"}[n%3], Times: 2, Fault: interceptor.LoseRequest()})
			s.BreakWatches(informer.ErrExpired)
			in.Remove()
		}
	})
	const each = 200
	var applied [4]int
	for w := range applied {
		writers.Go(func() { // ends after its writes; waited for below
			for n := range each {
				_, err := s.Create(context.Background(), object{Key: fmt.Sprint(w, n)})
				if err == nil {
					applied[w]++
				} else {
					assert.ErrorIs(t, err, interceptor.ErrLost)
				}
			}
		})
	}
	writers.Wait()
	stop()
	others.Wait()
	l, err := memory.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 1+applied[0]+applied[1]+applied[2]+applied[3])
	writes := s.Writes()
	assert.Len(t, writes, len(applied)*each)
	for _, c := range writes {
		assert.Equal(t, c.Err != nil, c.Hit)
	}
}

func TestNewPanicsOnNilStore(t *testing.T) {
	require.PanicsWithValue(t, "interceptor: New: the store is nil", func() { interceptor.New[thing](nil) })
	s, _ := intercepted(t)
	const missing = "interceptor: NewWithPlan: the plan or the store is nil"
	require.PanicsWithValue(t, missing, func() { interceptor.NewWithPlan[thing](nil, s) })
	require.PanicsWithValue(t, missing, func() { interceptor.NewWithPlan[thing](new(interceptor.Plan), nil) })
}
