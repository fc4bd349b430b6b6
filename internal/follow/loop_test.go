package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

// log is a database: its changes are at the versions that it holds, and its version may be beyond them.
type log struct {
	mu sync.Mutex
	// mu guards the following.
	changes []informer.Version
	version informer.Version
	then    follow.Then // what a read returns that has read all

	batch  int
	reads  int
	asked  int
	during func() // happens after each read, before its reader continues
	err    error
}

func (l *log) read(_ context.Context, after informer.Version) (follow.Page[string], error) {
	l.reads++
	if l.during != nil {
		defer l.during()
	}
	l.mu.Lock()
	changes, p := l.changes, follow.Page[string]{UpTo: l.version, Then: l.then}
	l.mu.Unlock()
	for _, v := range changes {
		if v <= after {
			continue
		}
		if p.Events = append(p.Events, fmt.Sprint("change ", v)); len(p.Events) == l.batch {
			p.UpTo, p.Then = v, follow.Again
			break
		}
	}
	return p, l.err
}

func (l *log) write(v informer.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes, l.version = append(l.changes, v), v
}

func (l *log) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.then = follow.Wait
}

func (l *log) latest() informer.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

func (l *log) loop(poll time.Duration, wake *follow.Signal) follow.Loop[string] {
	return follow.Loop[string]{
		Poll: poll, Signal: wake, Read: l.read, VersionOf: versionOf,
		Bookmark: func(v informer.Version) string { return fmt.Sprint("bookmark ", v) },
	}
}

// versionOf returns the version that an event ends with.
func versionOf(event string) (v informer.Version) {
	if _, err := fmt.Sscanf(event, "change %d", &v); err != nil {
		panic(err)
	}
	return v
}

// until returns a yield that collects, and leaves after n events.
func until(n int, told *[]string) func(string) bool {
	return func(e string) bool {
		*told = append(*told, e)
		return len(*told) < n
	}
}

func TestWatchLoop(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"yields changes in batches at once, and a bookmark for the skipped ones": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3, 4, 5}, version: 9, batch: 2}
			var told []string
			begin := time.Now()
			if err := l.loop(time.Hour, new(follow.Signal)).Run(t.Context(), 1, until(5, &told)); err != nil {
				t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run: %v", err)
			}
			if diff := cmp.Diff([]string{"change 2", "change 3", "change 4", "change 5", "bookmark 9"}, told); diff != "" {
				t.Errorf("told mismatch (-want +got):\n%s", diff)
			}
			if got := time.Now(); !got.Equal(begin) {
				t.Errorf("time.Now() = %v, want %v", got, begin)
			}
		},
		"yields no bookmark for a version that it has yielded": func(t *testing.T) {
			l := log{changes: []informer.Version{1}, version: 1}
			ctx, cancel := context.WithTimeout(t.Context(), backend.BookmarkInterval/2-1)
			defer cancel()
			var told []string
			if err := l.loop(time.Hour, new(follow.Signal)).Run(ctx, 0, until(9, &told)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run(ctx, 0, until(9, &told)) = %v, want %v", err, context.DeadlineExceeded)
			}
			if want := ([]string{"change 1"}); !slices.Equal(told, want) {
				t.Errorf("told = %q, want %q", told, want)
			}
		},
		"is never silent for longer than BookmarkInterval": func(t *testing.T) {
			for _, poll := range []time.Duration{time.Millisecond, 999 * time.Millisecond, 2499 * time.Millisecond, 2501 * time.Millisecond, time.Hour} {
				l := log{changes: []informer.Version{1}, version: 1}
				last, told := time.Now(), 0
				if err := l.loop(poll, new(follow.Signal)).Run(t.Context(), 0, func(string) bool {
					if got := time.Since(last); got > backend.BookmarkInterval {
						t.Errorf("%v: time.Since(last) = %v, want at most %v", poll, got, backend.BookmarkInterval)
					}
					last, told = time.Now(), told+1
					return told < 10
				}); err != nil {
					t.Fatalf("l.loop(poll, new(follow.Signal)).Run: %v", err)
				}
			}
		},
		"sees a change at the next poll without being woken": func(t *testing.T) {
			var l log
			begin := time.Now()
			time.AfterFunc(3500*time.Microsecond, func() { l.write(1) })
			var told []string
			if err := l.loop(time.Millisecond, new(follow.Signal)).Run(t.Context(), 0, until(1, &told)); err != nil {
				t.Fatalf("l.loop(time.Millisecond, new(follow.Signal)).Run: %v", err)
			}
			if want := ([]string{"change 1"}); !slices.Equal(told, want) {
				t.Errorf("told = %q, want %q", told, want)
			}
			if got := time.Since(begin); got != 4*time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, 4*time.Millisecond)
			}
		},
		"sees a change at once when it is woken": func(t *testing.T) {
			var l log
			var wake follow.Signal
			wake.Wake() // without a waiter
			begin := time.Now()
			time.AfterFunc(time.Second, func() { l.write(1); wake.Wake() })
			var told []string
			if err := l.loop(time.Hour, &wake).Run(t.Context(), 0, until(1, &told)); err != nil {
				t.Fatalf("l.loop(time.Hour, &wake).Run: %v", err)
			}
			if got := time.Since(begin); got != time.Second {
				t.Errorf("time.Since(begin) = %v, want %v", got, time.Second)
			}
		},
		"reads again when it is woken while it reads": func(t *testing.T) {
			var l log
			var wake follow.Signal
			l.during = func() { l.during = nil; l.write(1); wake.Wake() }
			begin := time.Now()
			var told []string
			if err := l.loop(time.Hour, &wake).Run(t.Context(), 0, until(1, &told)); err != nil {
				t.Fatalf("l.loop(time.Hour, &wake).Run: %v", err)
			}
			if want := ([]string{"change 1"}); !slices.Equal(told, want) {
				t.Errorf("told = %q, want %q", told, want)
			}
			if got := time.Now(); !got.Equal(begin) {
				t.Errorf("time.Now() = %v, want %v", got, begin)
			}
		},
		"reads only when something has changed or a bookmark is due, if it can tell": func(t *testing.T) {
			var l log
			loop := l.loop(time.Millisecond, new(follow.Signal))
			loop.Changed = func(_ context.Context, after informer.Version) (bool, error) {
				l.asked++
				return l.latest() > after, nil
			}
			time.AfterFunc(9500*time.Microsecond, func() { l.write(1) })
			var told []string
			if err := loop.Run(t.Context(), 0, until(2, &told)); err != nil {
				t.Fatalf("loop.Run(ctx, 0, until(2, &told)): %v", err)
			}
			if want := ([]string{"change 1", "bookmark 1"}); !slices.Equal(told, want) {
				t.Errorf("told = %q, want %q", told, want)
			}
			if l.reads != 3 {
				t.Errorf("l.reads = %v, want 3", l.reads)
			}
			if l.asked != 10+2500 {
				t.Errorf("l.asked = %v, want %v", l.asked, 10+2500)
			}
			loop.Changed = func(context.Context, informer.Version) (bool, error) { return false, errors.New("torn") }
			if got := fmt.Sprint(loop.Run(t.Context(), 1, until(2, &told))); got != "torn" {
				t.Fatalf("loop.Run(ctx, 1, until(2, &told)) = %q, want %q", got, "torn")
			}
		},
		"polls again soon after a wake-up while changes are pending": func(t *testing.T) {
			l := log{then: follow.Settle}
			var wake follow.Signal
			var reads []time.Duration
			begin := time.Now()
			l.during = func() { reads = append(reads, time.Since(begin)) }
			ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
			defer cancel()
			time.AfterFunc(1500*time.Millisecond, wake.Wake)
			time.AfterFunc(1512*time.Millisecond, l.settle)
			if err := l.loop(400*time.Millisecond, &wake).Run(ctx, 0, until(1, new([]string))); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("l.loop(400*time.Millisecond, &wake).Run = %v, want %v", err, context.DeadlineExceeded)
			}
			var want []time.Duration
			for _, ms := range []time.Duration{0, 5, 15, 35, 75, 155, 315, 400, 800, 1200, 1500, 1505, 1515, 1600} {
				want = append(want, ms*time.Millisecond)
			}
			if diff := cmp.Diff(want, reads); diff != "" {
				t.Errorf("reads mismatch (-want +got):\n%s", diff)
			}
		},
		"reads changes after a wake-up within its duration plus 5 ms": func(t *testing.T) {
			for took := 500 * time.Microsecond; took < 400*time.Millisecond; took = took * 5 / 4 {
				l := log{then: follow.Settle}
				begin := time.Now()
				time.AfterFunc(took, func() { l.write(1) })
				var told []string
				if err := l.loop(time.Hour, new(follow.Signal)).Run(t.Context(), 0, until(1, &told)); err != nil {
					t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run: %v", err)
				}
				if want := ([]string{"change 1"}); !slices.Equal(told, want) {
					t.Errorf("told = %q, want %q", told, want)
				}
				if got, limit := time.Since(begin)-took, took+5*time.Millisecond; got > limit {
					t.Errorf("time.Since(begin)-took = %v, want at most %v", got, limit)
				}
			}
		},
		"pauses before waiting but not between pages": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3}, version: 3, batch: 1}
			loop := l.loop(time.Second, new(follow.Signal))
			var told, at []string
			loop.Rest = func(context.Context) error {
				at = append(at, fmt.Sprint(len(told), " events, ", l.reads, " reads"))
				if len(at) == 2 {
					return errors.New("restless")
				}
				return nil
			}
			if got := fmt.Sprint(loop.Run(t.Context(), 0, until(9, &told))); got != "restless" {
				t.Fatalf("loop.Run(ctx, 0, until(9, &told)) = %q, want %q", got, "restless")
			}
			if want := ([]string{"3 events, 4 reads", "3 events, 5 reads"}); !slices.Equal(at, want) {
				t.Errorf("at = %q, want %q", at, want)
			}
		},
		"reads the next page while it yields one": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3, 4, 5, 6}, version: 6, batch: 2}
			l.during = func() { time.Sleep(20 * time.Millisecond) }
			begin, told := time.Now(), 0
			if err := l.loop(time.Hour, new(follow.Signal)).Run(t.Context(), 0, func(string) bool {
				time.Sleep(15 * time.Millisecond)
				told++
				return told < 6
			}); err != nil {
				t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run: %v", err)
			}
			if got := time.Since(begin); got != 110*time.Millisecond {
				t.Errorf("one read, and three yielded pages: time.Since(begin) = %v, want %v", got, 110*time.Millisecond)
			}
		},
		"yields no bookmark older than an event": func(t *testing.T) {
			pages := []follow.Page[string]{ // of one transaction, whose version is 8
				{Events: []string{"change 7"}, UpTo: 4, Then: follow.Again},
				{UpTo: 4, Then: follow.Again},
				{Events: []string{"change 8"}, UpTo: 8},
			}
			loop := (&log{}).loop(time.Hour, new(follow.Signal))
			loop.Read = func(context.Context, informer.Version) (follow.Page[string], error) {
				time.Sleep(backend.BookmarkInterval / 2)
				p := pages[0]
				pages = pages[1:]
				return p, nil
			}
			var told []string
			if err := loop.Run(t.Context(), 4, until(3, &told)); err != nil {
				t.Fatalf("loop.Run(ctx, 4, until(3, &told)): %v", err)
			}
			if want := ([]string{"change 7", "bookmark 7", "change 8"}); !slices.Equal(told, want) {
				t.Errorf("told = %q, want %q", told, want)
			}
		},
		"ends with the error of a read, and with the cause of its context": func(t *testing.T) {
			l := log{err: errors.New("broken")}
			if got := fmt.Sprint(l.loop(time.Hour, new(follow.Signal)).Run(t.Context(), 0, until(1, new([]string)))); got != "broken" {
				t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run = %q, want %q", got, "broken")
			}
			l.err = nil
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("gone"))
			if got := fmt.Sprint(l.loop(time.Hour, new(follow.Signal)).Run(ctx, 0, until(1, new([]string)))); got != "gone" {
				t.Fatalf("l.loop(time.Hour, new(follow.Signal)).Run = %q, want %q", got, "gone")
			}
		},
		"all waiters are woken": func(t *testing.T) {
			var wake follow.Signal
			one, two := wake.Next(), wake.Next()
			wake.Wake()
			<-one
			<-two
			select {
			case <-wake.Next():
				t.Error("nothing has happened since")
			default:
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
