package leasetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// The calls of a case in which nothing answers.
const (
	deadline = 100 * time.Millisecond // of a call
	grace    = time.Second            // what a call may take beyond the end of its context
)

var faultCases = []testCase{
	{"a record does not expire", func(t testing.TB, b Backend) {
		if b.Idle == 0 {
			t.Skip("the backend has no Idle")
		}
		have := create(t, b.Store, entry("a"))
		renewed := update(t, b.Store, create(t, b.Store, leaderelect.Entry{Key: "renewed"}), "a")
		time.Sleep(b.Idle)
		for _, s := range []leaderelect.LeaseStore{b.Store, b.reopen()} {
			holds(t, s, have)
			holds(t, s, renewed)
		}
	}},

	{"a version does not come back after a deletion, and a floor grows", func(t testing.TB, b Backend) {
		if b.Delete == nil {
			t.Skip("the backend has no Delete")
		}
		seen := make(map[string]bool)
		floor := uint64(0)
		note := func(e leaderelect.Entry) {
			t.Helper()
			if seen[e.Version] {
				t.Fatalf("version %q is used twice", e.Version)
			}
			seen[e.Version] = true
			if e.Floor <= floor && (floor > 0 || e.Floor > 0) && len(seen) > 1 {
				t.Fatalf("floor %d comes after %d", e.Floor, floor)
			}
			floor = e.Floor
		}
		for range 5 {
			have := create(t, b.Store, entry("a"))
			note(have)
			next := update(t, b.Store, have, "a")
			note(next)
			b.Delete(key)
			absent(t, b.Store, key)
			if l, ok := b.Store.(lister); ok {
				listed(t, l, "", nil)
			}
			_, err := b.Store.Update(context.Background(), next)
			conflict(t, "Update of a deleted record", err)
		}
	}},

	{"a call in a network that drops everything returns soon after its context has ended", func(t testing.TB, b Backend) {
		if b.Drop == nil || b.Heal == nil {
			t.Skip("the backend has no Drop and Heal")
		}
		have := create(t, b.Store, entry("0"))
		have = update(t, b.Store, have, "1")
		holds(t, b.Store, have)

		b.Drop()
		defer b.Heal() // also when the case fails
		next := have
		next.Value = []byte("2")
		other := entry("2")
		other.Key = "other"
		calls := callsOf(b.Store, next, other)
		atOnce(calls, context.WithTimeout)
		for _, c := range calls {
			if c.name != "Watch" || c.err != nil {
				vague(t, c.name+" without a network", c.err)
			}
			if c.took > deadline+grace {
				t.Fatalf("%s without a network returns %v after the end of its context", c.name, c.took-deadline)
			}
		}
		b.Heal()
		oldOrNew(t, b.Store, have, next)
		eventually(t, "Create after the network is back", func(ctx context.Context) error {
			_, err := b.Store.Create(ctx, other)
			if errors.Is(err, leaderelect.ErrConflict) { // the one from before has arrived
				return nil
			}
			return err
		})
	}},

	{"calls in a network that drops everything do not wait for each other", func(t testing.TB, b Backend) {
		if b.Drop == nil || b.Heal == nil {
			t.Skip("the backend has no Drop and Heal")
		}
		have := create(t, b.Store, entry("0"))
		b.Drop()
		defer b.Heal() // also when the case fails
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		var patient sync.WaitGroup
		defer patient.Wait()
		defer cancel()
		for range 4 {
			// These calls have a long time. They end when the case does, which waits for them above.
			patient.Go(func() { _, _ = b.Store.Get(ctx, key) })
		}
		time.Sleep(deadline / 2) // they are under way
		next := have
		next.Value = []byte("1")
		calls := callsOf(b.Store, next, leaderelect.Entry{Key: "other"})
		atOnce(calls, context.WithTimeout)
		for _, c := range calls {
			if c.name != "Watch" || c.err != nil {
				vague(t, c.name+" without a network", c.err)
			}
			if c.took > deadline+grace {
				t.Fatalf("%s without a network, beside calls with more time, returns %v after the end of its context", c.name, c.took-deadline)
			}
		}
	}},

	{"a watch that has lost its network for a while reports the next change, or ends", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		if b.Drop == nil || b.Heal == nil {
			t.Skip("the backend has no Drop and Heal")
		}
		have := create(t, b.Store, entry("0"))
		events := watch(t, w, key)
		events.holds(t, have)
		heal := sync.OnceFunc(b.Heal)
		b.Drop()
		defer heal() // also when the case fails
		time.Sleep(2 * deadline)
		heal()
		events.holdsOrEnds(t, updateUntil(t, b.Store, have, "1"))
		events.stop(t)
	}},

	{"a call that waits for another writer returns soon after its context has ended", func(t testing.TB, b Backend) {
		if b.Lock == nil {
			t.Skip("the backend has no Lock")
		}
		have := update(t, b.Store, create(t, b.Store, entry("0")), "1")
		next := have
		next.Value = []byte("2")
		other := entry("2")
		other.Key = "other"
		unlock := sync.OnceFunc(b.Lock())
		defer unlock() // also when the case fails
		for how, end := range map[string]func(context.Context, time.Duration) (context.Context, context.CancelFunc){
			"reached its deadline": context.WithTimeout, "been canceled": withCancelAfter,
		} {
			calls := callsOf(b.Store, next, other)
			atOnce(calls, end)
			for _, c := range calls {
				if !c.reads || c.err != nil {
					vague(t, c.name+" while another writer has the lock", c.err)
				}
				if c.took > deadline+grace {
					t.Fatalf("%s while another writer has the lock returns %v after its context has %s", c.name, c.took-deadline, how)
				}
			}
		}
		unlock()
		oldOrNew(t, b.Store, have, next)
		eventually(t, "Create after the lock was released", func(ctx context.Context) error {
			_, err := b.Store.Create(ctx, other)
			return err
		})
	}},

	{"a write with a lost reply returns no definite error", func(t testing.TB, b Backend) {
		if b.CutReply == nil {
			t.Skip("the backend has no CutReply")
		}
		have := create(t, b.Store, entry("0")) // also sets up everything that the first call creates
		for i := range 5 {
			have = update(t, b.Store, have, "before "+strconv.Itoa(i))
			next := have
			next.Value = []byte("after " + strconv.Itoa(i))
			b.CutReply()
			got, err := b.Store.Update(context.Background(), next)
			if err != nil {
				vague(t, "Update without a reply", err)
				got = oldOrNew(t, b.Store, have, next)
			}
			holds(t, b.Store, got)
			have = got
		}
		for i := range 5 {
			e := entry("a")
			e.Key = "created " + strconv.Itoa(i)
			update(t, b.Store, create(t, b.Store, leaderelect.Entry{Key: e.Key + "!"}), "a")
			b.CutReply()
			got, err := b.Store.Create(context.Background(), e)
			if err != nil {
				vague(t, "Create without a reply", err)
				err = eventually(t, "Get after a cut", func(ctx context.Context) (err error) {
					got, err = b.Store.Get(ctx, e.Key)
					return err
				})
				if errors.Is(err, leaderelect.ErrNotFound) {
					continue
				}
			}
			stored(t, "Get", got, e)
		}
	}},

	{"an acknowledged write survives the end of the server", func(t testing.TB, b Backend) {
		if b.Restart == nil {
			t.Skip("the backend has no Restart")
		}
		have := create(t, b.Store, entry("0"))
		seen := map[string]bool{have.Version: true}
		stop, acked := make(chan struct{}), make(chan leaderelect.Entry)
		fell := false // the floor; the goroutine below has it until it ends
		// This goroutine writes while the server goes down. It ends when the case stops it, or when a write fails.
		go func() {
			e := have
			for i := 1; ; i++ {
				next := e
				next.Value = []byte(strconv.Itoa(i))
				ctx, cancel := context.WithTimeout(context.Background(), Patience)
				got, err := b.Store.Update(ctx, next)
				cancel()
				if err == nil {
					fell = fell || got.Floor < e.Floor
					e = got
				}
				select {
				case <-stop:
				default:
					if err == nil {
						continue
					}
				}
				acked <- e
				return
			}
		}()
		time.Sleep(50 * time.Millisecond) // any moment will do
		created := create(t, b.Store, leaderelect.Entry{Key: "created", Value: []byte("a"), Term: 1})
		b.Restart()
		close(stop)
		last := <-acked
		if fell {
			t.Fatalf("a floor after the end of the server is less than one before")
		}

		next := last
		n, _ := strconv.Atoi(string(last.Value))
		next.Value = []byte(strconv.Itoa(n + 1)) // may have arrived
		have = oldOrNew(t, b.Store, last, next)
		seen[last.Version], seen[have.Version] = true, true
		oldOrNew(t, b.Store, created, created)
		for i := range 10 {
			floor := have.Floor
			next := have
			next.Value = []byte("after " + strconv.Itoa(i))
			got, err := b.Store.Update(context.Background(), next)
			if err != nil { // by a connection that was there before
				vague(t, "Update after the end of the server", err)
				if got = oldOrNew(t, b.Store, have, next); got.Version == have.Version {
					continue
				}
			}
			if have = got; seen[have.Version] {
				t.Fatalf("version %q is used again after the end of the server", have.Version)
			}
			seen[have.Version] = true
			if have.Floor < floor || floor > 0 && have.Floor == floor {
				t.Fatalf("floor %d comes after %d, after the end of the server", have.Floor, floor)
			}
		}
		if got := oldOrNew(t, b.reopen(), have, have); got.Version != have.Version {
			t.Fatalf("another handle has version %q after the end of the server, want %q", got.Version, have.Version)
		}
	}},

	{"a watch reports a change after the end of the server, or ends", func(t testing.TB, b Backend) {
		w := watcher(t, b)
		if b.Restart == nil {
			t.Skip("the backend has no Restart")
		}
		have := create(t, b.Store, entry("0"))
		events := watch(t, w, key)
		events.holds(t, have)
		b.Restart()
		events.holdsOrEnds(t, updateUntil(t, b.Store, have, "1"))
		events.stop(t)
	}},
}

// updateUntil replaces have by a record with another value, as soon as the store can, and returns it.
func updateUntil(t testing.TB, s leaderelect.LeaseStore, have leaderelect.Entry, value string) leaderelect.Entry {
	t.Helper()
	next := have
	next.Value = []byte(value)
	err := eventually(t, "Update after a fault", func(ctx context.Context) error {
		_, err := s.Update(ctx, next)
		return err
	})
	if err != nil && !errors.Is(err, leaderelect.ErrConflict) { // a conflict: one of those before has arrived
		t.Fatalf("Update after a fault: %v", err)
	}
	got := oldOrNew(t, s, have, next)
	if got.Version == have.Version {
		t.Fatalf("Update of version %q after a fault returns error %v, and the record has that version", have.Version, err)
	}
	return got
}

// call is a call of the store, what it has returned, and how long it took.
type call struct {
	name string
	do   func(ctx context.Context) error
	err  error
	took time.Duration

	reads bool // it need not wait for writers
}

// callsOf returns a call of each method of s: an Update to next, a Create of other, and reads of their records.
func callsOf(s leaderelect.LeaseStore, next, other leaderelect.Entry) []*call {
	calls := []*call{
		{name: "Get", do: func(ctx context.Context) error { _, err := s.Get(ctx, next.Key); return err }, reads: true},
		{name: "Update", do: func(ctx context.Context) error { _, err := s.Update(ctx, next); return err }},
		{name: "Create", do: func(ctx context.Context) error { _, err := s.Create(ctx, other); return err }},
	}
	if l, ok := s.(lister); ok {
		calls = append(calls, &call{name: "List", do: func(ctx context.Context) error { _, err := l.List(ctx, ""); return err }, reads: true})
	}
	if w, ok := s.(leaderelect.Watcher); ok {
		calls = append(calls, &call{name: "Watch", do: func(ctx context.Context) (err error) {
			for _, err = range w.Watch(ctx, next.Key) {
			}
			return err
		}, reads: true})
	}
	return calls
}

// withCancelAfter is context.WithTimeout without a deadline that a call could see.
func withCancelAfter(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// atOnce makes all calls concurrently, each with a context that ends after the deadline.
func atOnce(calls []*call, end func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	var all sync.WaitGroup
	for _, c := range calls {
		// These goroutines make the calls. Each ends when the store lets it; the Wait below waits for them.
		all.Go(func() {
			ctx, cancel := end(context.Background(), deadline)
			defer cancel()
			begin := time.Now()
			c.err = c.do(ctx)
			c.took = time.Since(begin)
		})
	}
	all.Wait()
}

// vague requires an error that is neither definite nor permanent.
func vague(t testing.TB, what string, err error) {
	t.Helper()
	refused(t, what, err)
	usable(t, what, err)
}

// refused requires an error that is not definite.
func refused(t testing.TB, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("%s succeeds", what)
	case errors.Is(err, leaderelect.ErrNotFound), errors.Is(err, leaderelect.ErrConflict):
		t.Fatalf("%s returns a definite error: %v", what, err)
	}
}

// eventually calls f until it returns nil or a definite error, which it returns.
func eventually(t testing.TB, what string, f func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil || errors.Is(err, leaderelect.ErrNotFound) || errors.Is(err, leaderelect.ErrConflict) {
			return err
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// oldOrNew waits until the record can be read again, requires that it is the old or the new one, and returns it.
func oldOrNew(t testing.TB, s leaderelect.LeaseStore, old, next leaderelect.Entry) leaderelect.Entry {
	t.Helper()
	var got leaderelect.Entry
	if err := eventually(t, "Get after a fault", func(ctx context.Context) (err error) {
		got, err = s.Get(ctx, old.Key)
		return err
	}); err != nil {
		t.Fatalf("Get after a fault: %v", err)
	}
	if got.Version == old.Version {
		stored(t, "Get after a write without effect", got, old)
		return got
	}
	stored(t, "Get after a write without a reply", got, next)
	return got
}
