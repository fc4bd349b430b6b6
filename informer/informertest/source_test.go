package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

var _ informer.ListWatcher[pair] = (*informertest.Source[string, pair])(nil)

type pair struct{ name, value string }

func newSource() *informertest.Source[string, pair] {
	return informertest.NewSource(func(p pair) string { return p.name })
}

// watch collects what a watch yields until its context ends.
type watch struct {
	mu   sync.Mutex
	got  []string
	done bool
}

func start(ctx context.Context, src *informertest.Source[string, pair], after informer.Version) *watch {
	w := &watch{}
	go func() { // ends with ctx, or when the watch does; the bubble waits for it
		for ev, err := range src.Watch(ctx, after) {
			w.add(fmt.Sprint(ev.Version, " ", ev.Type, " ", ev.Object.name, ev.Object.value), err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = true
	}()
	return w
}

func (w *watch) add(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		what = err.Error()
	}
	w.got = append(w.got, what)
}

// take returns what came since the last take, and whether the watch is open.
func (w *watch) take() (got []string, open bool) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got, w.got = w.got, nil
	return got, !w.done
}

func TestListIsInInsertionOrder(t *testing.T) {
	src := newSource()
	if got := src.Put(pair{"b", "1"}); got != informer.Version(1) {
		t.Errorf(`src.Put(pair{"b", "1"}) = %v, want %v`, got, informer.Version(1))
	}
	if got := src.Put(pair{"a", "2"}); got != informer.Version(2) {
		t.Errorf(`src.Put(pair{"a", "2"}) = %v, want %v`, got, informer.Version(2))
	}
	if got := src.Put(pair{"c", "3"}); got != informer.Version(3) {
		t.Errorf(`src.Put(pair{"c", "3"}) = %v, want %v`, got, informer.Version(3))
	}
	if got := src.Put(pair{"b", "4"}); got != informer.Version(4) {
		t.Errorf(`src.Put(pair{"b", "4"}) = %v, want %v`, got, informer.Version(4))
	}
	if got := src.Delete("a"); got != informer.Version(5) {
		t.Errorf(`src.Delete("a") = %v, want %v`, got, informer.Version(5))
	}
	if got := src.Delete("a"); got != informer.Version(5) {
		t.Errorf(`src.Delete("a") = %v, want %v`, got, informer.Version(5))
	}
	if got := src.Put(pair{"a", "6"}); got != informer.Version(6) {
		t.Errorf(`src.Put(pair{"a", "6"}) = %v, want %v`, got, informer.Version(6))
	}
	if got := src.Bookmark(); got != informer.Version(7) {
		t.Errorf("src.Bookmark() = %v, want %v", got, informer.Version(7))
	}
	list, err := src.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(informer.List[pair]{Items: []pair{{"b", "4"}, {"c", "3"}, {"a", "6"}}, Version: 7}, list, cmp.AllowUnexported(pair{})); diff != "" {
		t.Errorf("list mismatch (-want +got):\n%s", diff)
	}
	if got := src.Version(); got != informer.Version(7) {
		t.Errorf("src.Version() = %v, want %v", got, informer.Version(7))
	}
	if got := src.Key(pair{name: "b"}); got != "b" {
		t.Errorf(`src.Key(pair{name: "b"}) = %q, want %q`, got, "b")
	}
}

func TestWatchYieldsEachChangeAfterItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		src.Put(pair{"a", "2"})
		w := start(t.Context(), src, 1)
		got, open := w.take()
		if want := ([]string{"2 Modified a2"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if !open {
			t.Error("open is false")
		}
		src.Delete("a")
		src.Put(pair{"a", "3"})
		src.Bookmark()
		got, _ = w.take()
		if want := ([]string{"3 Deleted a2", "4 Added a3", "5 Bookmark "}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
	})
}

func TestBreakEndsOnlyOpenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		one, two := start(t.Context(), src, 0), start(t.Context(), src, 0)
		synctest.Wait()
		src.Break(errors.New("reset by peer"))
		src.Put(pair{"a", "1"})
		for _, w := range []*watch{one, two} {
			got, open := w.take()
			if want := ([]string{"reset by peer"}); !slices.Equal(got, want) {
				t.Errorf("got = %q, want %q", got, want)
			}
			if open {
				t.Error("open is true")
			}
		}
		next := start(t.Context(), src, 0)
		got, _ := next.take()
		if want := ([]string{"1 Added a1"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		src.Break(nil)
		got, open := next.take()
		if len(got) != 0 {
			t.Errorf("got = %v, want none", got)
		}
		if open {
			t.Error("open is true")
		}
	})
}

func TestFailFailsCallsUntilCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		w := start(t.Context(), src, 0)
		synctest.Wait()
		down := errors.New("no route to host")
		src.Fail(down)
		src.Put(pair{"a", "1"})
		got, open := w.take()
		if want := ([]string{"no route to host"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if open {
			t.Error("open is true")
		}
		got, _ = start(t.Context(), src, 0).take()
		if want := ([]string{"no route to host"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		_, err := src.List(t.Context())
		if err != down {
			t.Errorf("err = %v, want %v", err, down)
		}

		src.Fail(nil)
		got, open = start(t.Context(), src, 0).take()
		if want := ([]string{"1 Added a1"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if !open {
			t.Error("open is false")
		}
		_, err = src.List(t.Context())
		if err != nil {
			t.Error(err)
		}
	})
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		w := start(t.Context(), src, 1)
		src.Put(pair{"a", "2"})
		synctest.Wait()
		src.Compact()
		src.Put(pair{"a", "3"})
		got, _ := w.take()
		if want := ([]string{"2 Modified a2", "3 Modified a3"}); !slices.Equal(got, want) {
			t.Errorf("a watch that is not behind is not affected: got = %q, want %q", got, want)
		}
		for after, want := range []string{informer.ErrExpired.Error(), informer.ErrExpired.Error(), "3 Modified a3", "", informer.ErrExpired.Error()} {
			got, _ := start(t.Context(), src, informer.Version(after)).take()
			if got := append(got, "")[0]; got != want {
				t.Errorf(`after %d: append(got, "")[0] = %q, want %q`, after, got, want)
			}
		}
	})
}

func TestWatchAndListEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		ctx, cancel := context.WithCancelCause(t.Context())
		w := start(ctx, src, 0)
		synctest.Wait()
		cancel(errors.New("enough"))
		got, open := w.take()
		if want := ([]string{"enough"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if open {
			t.Error("open is true")
		}
		_, err := src.List(ctx)
		if got := fmt.Sprint(err); got != "enough" {
			t.Errorf("err = %q, want %q", got, "enough")
		}
	})
}

func TestWatchMayBreak(t *testing.T) {
	src := newSource()
	src.Put(pair{"a", "1"})
	src.Put(pair{"b", "2"})
	for ev, err := range src.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if want := (pair{"a", "1"}); ev.Object != want {
			t.Errorf("ev.Object = %+v, want %+v", ev.Object, want)
		}
		break
	}
}

func TestNewSourcePanicsWithoutKeyFunc(t *testing.T) {
	if panicOf(func() { informertest.NewSource[string, pair](nil) }) == nil {
		t.Error("no panic")
	}
}
