package input_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
)

// none is no sources beside those of the feeds.
var none []input.Source

// newFeeds returns the informer of w, which runs until the test ends, with two feeds of it.
func newFeeds(t *testing.T, w *world) *input.Feeds[string] {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.inf.Run(ctx); err != nil {
			t.Errorf("w.inf.Run(ctx): %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	var mu sync.Mutex // two handlers add keys
	add := w.origin.To.Add
	w.origin.To.Add = func(key string, a input.Addition) {
		mu.Lock()
		defer mu.Unlock()
		add(key, a)
	}
	return input.NewFeeds([]*input.Feed[string]{
		input.Own(w.origin, input.Rules[object]{}, w.inf),
		input.Pointing(w.origin, input.Rules[object]{}, w.inf, owner),
	}, []input.Source{w.inf})
}

// present returns the keys that Present adds.
func present(fs *input.Feeds[string]) (keys []string) {
	fs.Present(func(key string) { keys = append(keys, key) })
	slices.Sort(keys)
	return keys
}

func TestFeedsStartAndStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", "x"})
		fs := newFeeds(t, w)
		if got := fs.Sources(); len(got) != 1 || got[0] != input.Source(w.inf) {
			t.Errorf("fs.Sources() = %v, want the informer once", got)
		}
		for range 2 {
			if fs.Started() {
				t.Error("fs.Started() is true")
			}
			if fs.Synced() {
				t.Error("fs.Synced() is true")
			}
			if got := present(fs); len(got) != 0 {
				t.Errorf("present(fs) = %v, want none", got)
			}
			beside := make(chan string, 2)
			syncers, stop, err := fs.Start(t.Context(), func(ctx context.Context, syncers []informer.Syncer) {
				beside <- fmt.Sprint(len(syncers))
				<-ctx.Done()
				time.Sleep(time.Second)
				beside <- "ended"
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(syncers) != 3 {
				t.Errorf("the source and two handlers: len(syncers) = %d, want 3: %v", len(syncers), syncers)
			}
			synctest.Wait()
			if !fs.Started() {
				t.Error("fs.Started() is false")
			}
			if !fs.Synced() {
				t.Error("fs.Synced() is false")
			}
			if got := <-beside; got != "3" {
				t.Errorf("<-beside = %q, want %q", got, "3")
			}
			if got, want := present(fs), ([]string{"a", "x"}); !slices.Equal(got, want) {
				t.Errorf("present(fs) = %q, want %q", got, want)
			}
			if err := fs.CheckInvariants(); err != nil {
				t.Fatalf("fs.CheckInvariants(): %v", err)
			}
			stop()
			if len(beside) != 1 {
				t.Errorf("the stop has waited for it: len(beside) = %d, want 1: %v", len(beside), beside)
			}
			if got := <-beside; got != "ended" {
				t.Errorf("<-beside = %q, want %q", got, "ended")
			}
			w.take()
			w.source.Put(object{"a", "x"})
			if got := w.take(); len(got) != 0 {
				t.Errorf("the handlers are removed: w.take() = %v, want none", got)
			}
		}
	})
}

func TestFeedsSyncAfterTheirSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fs := input.NewFeeds([]*input.Feed[string]{input.Own(w.origin, input.Rules[object]{}, w.inf)}, none)
		_, stop, err := fs.Start(t.Context(), nil)
		defer stop()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !fs.Started() {
			t.Error("fs.Started() is false")
		}
		if fs.Synced() {
			t.Error("fs.Synced() is true")
		}
	})
}

func TestStopWaitsForReadersOfPresentObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		w.source.Put(object{"b", ""})
		fs := newFeeds(t, w)
		_, stop, err := fs.Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var added []string
		began := make(chan struct{})
		go func() {
			fs.Present(func(key string) {
				if added == nil {
					close(began)
				}
				time.Sleep(time.Second)
				added = append(added, key)
			})
		}()
		<-began
		stop()
		if len(added) != 1 {
			t.Errorf("the stop has waited for the key that was being added, and the second one was left out: len(added) = %d, want 1: %v", len(added), added)
		}
	})
}

func TestCallerStopsFeedsOfEndedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ended := newWorld(t), newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ended.inf.Run(ctx); err != nil {
			t.Fatalf("ended.inf.Run(ctx): %v", err)
		}
		fs := input.NewFeeds([]*input.Feed[string]{
			input.Own(w.origin, input.Rules[object]{}, w.inf), input.Own(ended.origin, input.Rules[object]{}, ended.inf),
		}, none)
		_, stop, err := fs.Start(t.Context(), nil)
		if !errors.Is(err, informer.ErrEnded) {
			t.Fatalf("err = %v, want %v", err, informer.ErrEnded)
		}
		if got := err.Error(); !strings.Contains(got, "watch things: ") {
			t.Errorf("err.Error() = %q, want it to contain %q", got, "watch things: ")
		}
		if fs.Started() {
			t.Error("fs.Started() is true")
		}
		stop()
	})
}

func TestWaitMappedWaitsForNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		fs := newFeeds(t, w)
		waited := make(chan error, 1)
		go func() { waited <- fs.WaitMapped(t.Context()) }()
		synctest.Wait()
		if len(waited) != 0 {
			t.Errorf("waited = %v, want none", waited)
		}
		_, stop, err := fs.Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Fatalf("<-waited: %v", err)
		}
		if err := fs.CheckInvariants(); err != nil {
			t.Fatalf("fs.CheckInvariants(): %v", err)
		}
		if len(w.added) == 0 {
			t.Error("w.added is empty")
		}
		stop()

		why := fmt.Errorf("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := fs.WaitMapped(ctx); !errors.Is(err, why) {
			t.Fatalf("fs.WaitMapped(ctx) = %v, want %v", err, why)
		}
		if err := input.NewFeeds[string](nil, none).WaitMapped(ctx); err != nil {
			t.Fatalf("there is nothing to wait for: input.NewFeeds[string](nil, none).WaitMapped(ctx): %v", err)
		}
	})
}

// The context of a mapper has the values of the context of Start. It ends when the feed stops.
func TestMapperContextEndsWithFeed(t *testing.T) {
	type valueKey struct{}
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("called again: %v", again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.source.Put(object{"a", "x"})
				calls := 0
				f := input.Mapped(w.origin, input.Rules[object]{}, w.inf, func(ctx context.Context, _ object) ([]string, error) {
					if calls++; again && calls == 1 {
						return nil, errBoom
					}
					if got := ctx.Value(valueKey{}); got != any("value") {
						t.Errorf("ctx.Value(valueKey{}) = %v, want %v", got, "value")
					}
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
						t.Error("the context of the mapper does not end")
					}
					return nil, context.Cause(ctx)
				})
				go func() {
					if err := w.inf.Run(t.Context()); err != nil {
						t.Errorf("w.inf.Run(ctx): %v", err)
					}
				}()
				fs := input.NewFeeds([]*input.Feed[string]{f}, none)
				_, stop, err := fs.Start(context.WithValue(t.Context(), valueKey{}, "value"), nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if calls <= 0 {
					t.Errorf("calls = %v, want more than 0", calls)
				}
				stop()
				if got := fs.Unmapped(); got != 1 {
					t.Errorf("fs.Unmapped() = %v, want 1", got)
				}
			})
		})
	}
}
