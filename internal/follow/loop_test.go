package follow_test

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
	"github.com/setpoint-go/setpoint/internal/broadcast"
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

func (l *log) loop(poll time.Duration, wake *broadcast.Signal) follow.Loop[string] {
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
func until(n int, reported *[]string) func(string) bool {
	return func(e string) bool {
		*reported = append(*reported, e)
		return len(*reported) < n
	}
}

func TestWatchLoop(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"yields changes in batches at once, and a bookmark for the skipped ones": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3, 4, 5}, version: 9, batch: 2}
			var reported []string
			begin := time.Now()
			require.NoError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(t.Context(), 1, until(5, &reported)))
			assert.Equal(t, []string{"change 2", "change 3", "change 4", "change 5", "bookmark 9"}, reported)
			assert.Equal(t, begin, time.Now())
		},
		"yields no bookmark for a version that it has yielded": func(t *testing.T) {
			l := log{changes: []informer.Version{1}, version: 1}
			ctx, cancel := context.WithTimeout(t.Context(), backend.BookmarkInterval/2-100*time.Millisecond-1)
			defer cancel()
			var reported []string
			require.ErrorIs(t, l.loop(time.Hour, new(broadcast.Signal)).Run(ctx, 0, until(9, &reported)), context.DeadlineExceeded)
			assert.Equal(t, []string{"change 1"}, reported)
		},
		"is never silent for longer than BookmarkInterval": func(t *testing.T) {
			for _, poll := range []time.Duration{time.Millisecond, 999 * time.Millisecond, 2499 * time.Millisecond, 2501 * time.Millisecond, time.Hour} {
				l := log{changes: []informer.Version{1}, version: 1}
				last, reported := time.Now(), 0
				require.NoError(t, l.loop(poll, new(broadcast.Signal)).Run(t.Context(), 0, func(string) bool {
					assert.LessOrEqual(t, time.Since(last), backend.BookmarkInterval, poll)
					last, reported = time.Now(), reported+1
					return reported < 10
				}))
			}
		},
		"is never silent for longer than BookmarkInterval if reads take some milliseconds": func(t *testing.T) {
			l := log{changes: []informer.Version{1}, version: 1}
			l.during = func() { time.Sleep([]time.Duration{19, 1, 5, 1}[l.reads%4] * time.Millisecond) }
			last, reported := time.Now(), 0
			require.NoError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(t.Context(), 0, func(string) bool {
				assert.LessOrEqual(t, time.Since(last), backend.BookmarkInterval)
				last, reported = time.Now(), reported+1
				return reported < 20
			}))
		},
		"sees a change at the next poll without being woken": func(t *testing.T) {
			var l log
			begin := time.Now()
			time.AfterFunc(3500*time.Microsecond, func() { l.write(1) })
			var reported []string
			require.NoError(t, l.loop(time.Millisecond, new(broadcast.Signal)).Run(t.Context(), 0, until(1, &reported)))
			assert.Equal(t, []string{"change 1"}, reported)
			assert.Equal(t, 4*time.Millisecond, time.Since(begin))
		},
		"sees a change at once when it is woken": func(t *testing.T) {
			var l log
			var wake broadcast.Signal
			wake.Wake() // without a waiter
			begin := time.Now()
			time.AfterFunc(time.Second, func() { l.write(1); wake.Wake() })
			var reported []string
			require.NoError(t, l.loop(time.Hour, &wake).Run(t.Context(), 0, until(1, &reported)))
			assert.Equal(t, time.Second, time.Since(begin))
		},
		"reads again when it is woken while it reads": func(t *testing.T) {
			var l log
			var wake broadcast.Signal
			l.during = func() { l.during = nil; l.write(1); wake.Wake() }
			begin := time.Now()
			var reported []string
			require.NoError(t, l.loop(time.Hour, &wake).Run(t.Context(), 0, until(1, &reported)))
			assert.Equal(t, []string{"change 1"}, reported)
			assert.Equal(t, begin, time.Now())
		},
		"reads only when something has changed or a bookmark is due, if it can tell": func(t *testing.T) {
			var l log
			loop := l.loop(time.Millisecond, new(broadcast.Signal))
			loop.Changed = func(_ context.Context, after informer.Version) (bool, error) {
				l.asked++
				return l.latest() > after, nil
			}
			time.AfterFunc(9500*time.Microsecond, func() { l.write(1) })
			var reported []string
			require.NoError(t, loop.Run(t.Context(), 0, until(2, &reported)))
			assert.Equal(t, []string{"change 1", "bookmark 1"}, reported)
			assert.Equal(t, 3, l.reads)
			assert.Equal(t, 10+2400, l.asked)
			loop.Changed = func(context.Context, informer.Version) (bool, error) { return false, errors.New("torn") }
			require.EqualError(t, loop.Run(t.Context(), 1, until(2, &reported)), "torn")
		},
		"polls again soon after a wake-up while changes are pending": func(t *testing.T) {
			l := log{then: follow.Settle}
			var wake broadcast.Signal
			var reads []time.Duration
			begin := time.Now()
			l.during = func() { reads = append(reads, time.Since(begin)) }
			ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
			defer cancel()
			time.AfterFunc(1500*time.Millisecond, wake.Wake)
			time.AfterFunc(1512*time.Millisecond, l.settle)
			require.ErrorIs(t, l.loop(400*time.Millisecond, &wake).Run(ctx, 0, until(1, new([]string))), context.DeadlineExceeded)
			var want []time.Duration
			for _, ms := range []time.Duration{0, 5, 15, 35, 75, 155, 315, 635, 1035, 1435, 1500, 1505, 1515} {
				want = append(want, ms*time.Millisecond)
			}
			assert.Equal(t, want, reads)
		},
		"reads changes after a wake-up within its duration plus 5 ms": func(t *testing.T) {
			for took := 500 * time.Microsecond; took < 400*time.Millisecond; took = took * 5 / 4 {
				l := log{then: follow.Settle}
				begin := time.Now()
				time.AfterFunc(took, func() { l.write(1) })
				var reported []string
				require.NoError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(t.Context(), 0, until(1, &reported)))
				assert.Equal(t, []string{"change 1"}, reported)
				assert.LessOrEqual(t, time.Since(begin)-took, took+5*time.Millisecond)
			}
		},
		"pauses before waiting but not between pages": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3}, version: 3, batch: 1}
			loop := l.loop(time.Second, new(broadcast.Signal))
			var reported, at []string
			loop.Rest = func(context.Context) error {
				at = append(at, fmt.Sprint(len(reported), " events, ", l.reads, " reads"))
				if len(at) == 2 {
					return errors.New("restless")
				}
				return nil
			}
			require.EqualError(t, loop.Run(t.Context(), 0, until(9, &reported)), "restless")
			assert.Equal(t, []string{"3 events, 4 reads", "3 events, 5 reads"}, at)
		},
		"reads the next page while it yields one": func(t *testing.T) {
			l := log{changes: []informer.Version{1, 2, 3, 4, 5, 6}, version: 6, batch: 2}
			l.during = func() { time.Sleep(20 * time.Millisecond) }
			begin, reported := time.Now(), 0
			require.NoError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(t.Context(), 0, func(string) bool {
				time.Sleep(15 * time.Millisecond)
				reported++
				return reported < 6
			}))
			assert.Equal(t, 110*time.Millisecond, time.Since(begin), "one read, and three yielded pages")
		},
		"yields no bookmark older than an event": func(t *testing.T) {
			pages := []follow.Page[string]{ // of one transaction, whose version is 8
				{Events: []string{"change 7"}, UpTo: 4, Then: follow.Again},
				{UpTo: 4, Then: follow.Again},
				{Events: []string{"change 8"}, UpTo: 8},
			}
			loop := (&log{}).loop(time.Hour, new(broadcast.Signal))
			loop.Read = func(context.Context, informer.Version) (follow.Page[string], error) {
				time.Sleep(backend.BookmarkInterval / 2)
				p := pages[0]
				pages = pages[1:]
				return p, nil
			}
			var reported []string
			require.NoError(t, loop.Run(t.Context(), 4, until(3, &reported)))
			assert.Equal(t, []string{"change 7", "bookmark 7", "change 8"}, reported)
		},
		"ends with the error of a read, and with the cause of its context": func(t *testing.T) {
			l := log{err: errors.New("broken")}
			require.EqualError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(t.Context(), 0, until(1, new([]string))), "broken")
			l.err = nil
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("gone"))
			require.EqualError(t, l.loop(time.Hour, new(broadcast.Signal)).Run(ctx, 0, until(1, new([]string))), "gone")
		},
		"all waiters are woken": func(t *testing.T) {
			var wake broadcast.Signal
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
