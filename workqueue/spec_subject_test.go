package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
	"github.com/setpoint-go/setpoint/workqueue"
)

func doubling(n int) time.Duration { return 5 * time.Millisecond << (n - 1) }

// atOnce is a limiter without delays, every third time.
func atOnce(n int) time.Duration {
	if n%3 == 0 {
		return 0
	}
	return time.Duration(n) * 700 * time.Millisecond
}

// specConfigs are the configurations that the model is compared with.
func specConfigs() map[string]specRules {
	counting := func(delay func(int) time.Duration) func() specLimiter[string] {
		return func() specLimiter[string] { return &countingLimiter[string]{delay: delay} }
	}
	const second = time.Second
	return map[string]specRules{
		"plain": {delay: doubling, timestamps: true},
		"the explicit default limiter": {delay: doubling, attempts: 4,
			limiter: workqueue.DefaultControllerRateLimiter[string]},
		"the longest delay of two limiters": {delay: doubling, limiter: func() specLimiter[string] {
			short := workqueue.NewItemExponentialFailureRateLimiter[string](time.Millisecond, time.Hour)
			return workqueue.NewMaxOfRateLimiter(workqueue.DefaultControllerRateLimiter[string](),
				specLimiter[string](workqueue.NewWithMaxWaitRateLimiter(specLimiter[string](short), 2*time.Millisecond)))
		}},
		"a budget of two attempts":            {delay: doubling, attempts: 2, timestamps: true},
		"one attempt":                         {delay: doubling, attempts: 1},
		"a budget of time":                    {delay: doubling, elapsed: 1500 * time.Millisecond},
		"a limiter that counts":               {delay: doubling, own: true, attempts: 3, limiter: counting(doubling), timestamps: true},
		"a limiter with delays of zero":       {delay: atOnce, own: true, attempts: 4, limiter: counting(atOnce)},
		"debounced":                           {delay: doubling, debounce: 2 * second, limit: 5 * second, timestamps: true},
		"debounced with a budget":             {delay: doubling, debounce: 2 * second, limit: 3 * second, attempts: 2},
		"getters of client-go":                {delay: doubling, get: true, attempts: 3},
		"getters of client-go, debounced":     {delay: doubling, get: true, debounce: 2 * second, limit: 20 * second},
		"priorities that do not age":          {delay: doubling, aging: -1, timestamps: true},
		"priorities that age":                 {delay: doubling, aging: 2 * time.Microsecond, attempts: 3},
		"groups":                              {delay: doubling, aging: 10, groups: true},
		"groups with a limit of one":          {delay: doubling, aging: -1, groups: true, groupLimit: 1, attempts: 2, timestamps: true},
		"groups with a limit of two, getters": {delay: doubling, groups: true, groupLimit: 2, get: true, debounce: second, limit: 2 * second},
	}
}

// specSubject is a queue, and the goroutines that wait in it.
type specSubject struct {
	q     *workqueue.Queue[string]
	rules specRules

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex // guards the following

	hooks                   []string // since the last comparison
	getters, ended, stopped int
	drains, idlers          int
	drained                 [3]int
	idled                   [2]int
	strange                 []string

	endRun func() // ends the Run under way; nil without one
}

var errSpecEnough = errors.New("enough")

func newSpecSubject(rules specRules) *specSubject {
	s := &specSubject{rules: rules}
	cfg := workqueue.Config[string]{
		MaxAttempts: rules.attempts, MaxElapsed: rules.elapsed, Debounce: rules.debounce, DebounceLimit: rules.limit,
		Aging: rules.aging, GroupLimit: rules.groupLimit, Timestamps: rules.timestamps, Logger: slog.New(specLog{s}),
		Hooks: workqueue.Hooks[string]{
			Added:     func(key string, p int) { s.hook("added ", key, " at ", p) },
			Raised:    func(key string, from, to int) { s.hook("raised ", key, " from ", from, " to ", to) },
			Delayed:   func(key string, d time.Duration) { s.hook("delayed ", key, d) },
			Parked:    func(key string, attempts int) { s.hook("parked ", key, attempts) },
			StrayDone: func(key string) { s.hook("stray ", key) },
		},
	}
	if rules.timestamps { // these hooks need them
		cfg.Hooks.Dispatched = func(key string, p int, d time.Duration) { s.hook("dispatched ", key, " at ", p, " ", d) }
		cfg.Hooks.Done = func(key string, d time.Duration) { s.hook("done ", key, d) }
	}
	if rules.groups {
		cfg.Group = groupOf
	}
	if rules.limiter != nil {
		cfg.RateLimiter = rules.limiter()
	}
	s.q = must(workqueue.New(cfg))
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func (s *specSubject) hook(what ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, fmt.Sprint(what...))
}

// compared forgets the calls of hooks.
func (s *specSubject) compared() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = nil
}

// call makes a call, and returns what it answers.
func (s *specSubject) call(c specCall) string {
	q := s.q
	opts := workqueue.AddOptions{Replace: c.replace, Priority: c.priority, PrioritySet: c.set, Reason: c.reason()}
	switch c.what {
	case "Add":
		q.Add(c.key)
	case "AddAfter":
		q.AddAfter(c.key, c.delay)
	case "AddWith":
		return fmt.Sprint(q.AddWith(c.key, opts))
	case "AddWith After":
		opts.After = cmp.Or(c.delay, -1)
		return fmt.Sprint(q.AddWith(c.key, opts))
	case "AddWith At":
		opts.At = time.Now().Add(c.delay)
		return fmt.Sprint(q.AddWith(c.key, opts))
	case "AddRateLimited":
		q.AddRateLimited(c.key)
	case "AddWith RateLimited":
		opts.RateLimited = true
		return fmt.Sprint(q.AddWith(c.key, opts))
	case "AddWith RateLimited After":
		opts.RateLimited, opts.After = true, cmp.Or(c.delay, -1)
		return fmt.Sprint(q.AddWith(c.key, opts))
	case "Park":
		q.Park(c.key, c.reason())
	case "Forget":
		q.Forget(c.key)
	case "Cancel":
		return fmt.Sprint(q.Cancel(c.key))
	case "Done":
		q.Done(c.key)
	case "TryTake":
		return specItem(q.TryTake())
	case "TryTakeKey":
		return specItem(q.TryTakeKey(c.key))
	case "Run nil", "Run stop", "Run error", "Run Goexit", "Run panic", "Run permanent", "Run after", "Run not yet", "Run soon", "Run conflict":
		return s.run(c.what)
	case "DropParked":
		return fmt.Sprint(q.DropParked(c.key))
	case "ShutDown":
		q.ShutDown()
	case "Pause":
		q.Pause()
	case "Resume":
		q.Resume()
	case "Drain":
		s.count(&s.drains, 1)
		go func() { // ends when the drain does; the run ends all of them
			err := q.Drain(s.ctx)
			s.count(&s.drains, -1)
			s.waited(err, s.drained[:])
		}()
	case "WaitIdle":
		s.count(&s.idlers, 1)
		go func() { // ends when the queue is idle, or by its context
			err := q.WaitIdle(s.ctx)
			s.count(&s.idlers, -1)
			s.waited(err, s.idled[:])
		}()
	case "WaitIdle, Done":
		return specEnd(q.WaitIdle(newScripted(context.Background(), func() { q.Done(c.key) })))
	case "Drain, Done":
		return specEnd(q.Drain(newScripted(context.Background(), func() { q.Done(c.key) })))
	case "Drain, ShutDown, Done":
		return specEnd(q.Drain(newScripted(context.Background(), func() { q.ShutDown(); q.Done(c.key) })))
	case "Take":
		s.count(&s.getters, 1)
		go s.getter() // ends with a key, or with its context or the shutdown
	case "end contexts":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel(errSpecEnough)
		s.ctx, s.cancel = context.WithCancelCause(context.Background())
	}
	return ""
}

func specEnd(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, workqueue.ErrShutDown):
		return "shut down"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return err.Error()
	}
}

func specItem(item workqueue.Item[string], ok bool) string {
	if !ok {
		return "none"
	}
	return itemText(item.Key, item.Attempt, item.FirstFailure, item.Priority, specReasons(item.Reasons))
}

func specReasons(reasons []workqueue.Reason) (texts []string) {
	for _, r := range reasons {
		texts = append(texts, r.Text)
	}
	return texts
}

// specConflict is a conflict.
type specConflict struct{}

func (specConflict) Error() string  { return "stale" }
func (specConflict) Conflict() bool { return true }

// specLog ends the Run that logs the end of an attempt.
type specLog struct{ s *specSubject }

func (l specLog) Enabled(context.Context, slog.Level) bool { return true }
func (l specLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l specLog) WithGroup(string) slog.Handler            { return l }

func (l specLog) Handle(context.Context, slog.Record) error {
	if l.s.endRun != nil {
		l.s.endRun()
	}
	return nil
}

// run works on one key with a Run whose context ends meanwhile.
func (s *specSubject) run(what string) (worked string) {
	if len(s.q.Ready()) == 0 { // or it would wait
		return "none"
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := s.q.Run(ctx, 1, func(ctx context.Context, item workqueue.Item[string]) error {
		worked = item.Key
		s.endRun = cancel // when the result is logged, and so has been applied
		switch what {
		case "Run nil":
			cancel()
			return nil
		case "Run stop":
			cancel()
			return &outcome.PermanentError{Err: specConflict{}} // an error of a stop, whatever it says
		case "Run Goexit":
			runtime.Goexit()
		case "Run panic":
			panic(specConflict{})
		case "Run permanent":
			return fmt.Errorf("%w", &outcome.PermanentError{Err: errors.New("gone")})
		case "Run after":
			return &outcome.AfterError{Err: errors.New("busy"), Delay: 3 * time.Second}
		case "Run not yet":
			return &outcome.NotYetError{Err: errors.New("waiting")}
		case "Run soon":
			return &outcome.NotYetError{Err: errors.New("waiting"), Delay: 2 * time.Second}
		case "Run conflict":
			return fmt.Errorf("%w", specConflict{})
		}
		return errors.New("broken")
	})
	if err != nil {
		s.wonder(err)
	}
	return worked
}

func (s *specSubject) getter() {
	if s.rules.get {
		var shutdown bool
		if s.rules.debounce > 0 { // both forms in some of the configurations
			_, shutdown = s.q.GetItem()
		} else {
			_, shutdown = s.q.Get()
		}
		s.count(&s.getters, -1)
		if shutdown {
			s.count(&s.ended, 1)
		}
		return
	}
	_, err := next(s.q, s.ctx)
	s.count(&s.getters, -1)
	switch {
	case err == nil:
	case errors.Is(err, workqueue.ErrShutDown):
		s.count(&s.ended, 1)
	case errors.Is(err, errSpecEnough):
		s.count(&s.stopped, 1)
	default:
		s.wonder(err)
	}
}

func (s *specSubject) count(n *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
}

func (s *specSubject) wonder(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strange = append(s.strange, err.Error())
}

func (s *specSubject) waited(err error, results []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		results[endedNil]++
	case errors.Is(err, errSpecEnough):
		results[endedByContext]++
	case errors.Is(err, workqueue.ErrShutDown) && len(results) > endedByShutDown:
		results[endedByShutDown]++
	default:
		s.strange = append(s.strange, err.Error())
	}
}

// String returns all that a user can observe. It calls every method that only reads.
func (s *specSubject) String() string {
	var b strings.Builder
	b.Grow(1024)
	infos := s.q.Snapshot()
	stats := s.q.Stats()
	parked := []string{}
	for _, i := range infos {
		if i.State == workqueue.Parked {
			parked = append(parked, i.Key)
		}
		writeKey(&b, i, s.q.NumRequeues(i.Key), specReasons(i.Reasons), s.q.ShuttingDown())
	}
	if got := s.q.Parked(); !slices.Equal(got, parked) {
		fmt.Fprintf(&b, "Parked says %v, Snapshot %v\n", got, parked)
	}
	if got := s.q.Len(); got != stats.Ready {
		fmt.Fprintf(&b, "Len says %d, Stats %d\n", got, stats.Ready)
	}
	if err := s.q.CheckInvariants(); err != nil {
		fmt.Fprintf(&b, "invariant %v\n", err)
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errSpecEnough)
	idle := s.q.WaitIdle(ended) == nil // as documented: idle is preferred to an ended context
	if _, err := s.q.Take(ended); !errors.Is(err, errSpecEnough) {
		fmt.Fprintf(&b, "Take with an ended context returns %v\n", err)
	}
	ready := append([]string{}, s.q.Ready()...)
	s.mu.Lock()
	defer s.mu.Unlock()
	writeRest(&b, stats, s.q.DepthByPriority(), s.q.Totals(), s.q.OldestReady(), ready, s.q.ShuttingDown(), idle, s.hooks)
	writeNumbers(&b, "\nwaiting getters, drains, idlers", s.getters, s.drains, s.idlers)
	writeNumbers(&b, "getters ended, stopped", s.ended, s.stopped)
	writeNumbers(&b, "drained", s.drained[:]...)
	writeNumbers(&b, "idled", s.idled[:]...)
	for _, text := range s.strange {
		fmt.Fprintf(&b, "\nstrange: %s", text)
	}
	return b.String()
}
