package informertest_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
)

func TestFrozenListIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		w := start(t.Context(), src, 1)
		src.Freeze(true)
		src.Put(pair{"a", "2"})
		src.Put(pair{"b", "3"})
		list, err := src.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(informer.List[pair]{Items: []pair{{"a", "1"}}, Version: 1}, list, cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("list mismatch (-want +got):\n%s", diff)
		}
		got, _ := w.take()
		if want := ([]string{"2 Modified a2", "3 Added b3"}); !slices.Equal(got, want) {
			t.Errorf("watches are correct: got = %q, want %q", got, want)
		}
		src.Freeze(false)
		list, err = src.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(informer.List[pair]{Items: []pair{{"a", "2"}, {"b", "3"}}, Version: 3}, list, cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("list mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestChangesWhileMutedAreNeverReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		w := start(t.Context(), src, 0)
		src.Put(pair{"a", "1"})
		src.Mute(true)
		src.Put(pair{"a", "2"})
		src.Delete("a")
		src.Mute(false)
		src.Put(pair{"b", "4"})
		got, open := w.take()
		if want := ([]string{"1 Added a1", "4 Added b4"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if !open {
			t.Error("open is false")
		}
		got, _ = start(t.Context(), src, 2).take()
		if want := ([]string{"4 Added b4"}); !slices.Equal(got, want) {
			t.Errorf("nor to a watch that starts during the gap: got = %q, want %q", got, want)
		}
		list, err := src.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(informer.List[pair]{Items: []pair{{"b", "4"}}, Version: 4}, list, cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("list mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestSendDeliversEventUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		src.Put(pair{"a", "2"})
		now := start(t.Context(), src, 2)
		synctest.Wait()
		src.Send(informer.Event[pair]{Type: informer.Added, Object: pair{"a", "1"}, Version: 1})
		src.Put(pair{"a", "3"})
		got, _ := now.take()
		if want := ([]string{"1 Added a1", "3 Modified a3"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		got, _ = start(t.Context(), src, 1).take()
		if want := ([]string{"2 Modified a2", "1 Added a1", "3 Modified a3"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		got, _ = start(t.Context(), src, 2).take()
		if want := ([]string{"3 Modified a3"}); !slices.Equal(got, want) {
			t.Errorf("a watch from its version does not receive it: got = %q, want %q", got, want)
		}
		list, err := src.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(informer.List[pair]{Items: []pair{{"a", "3"}}, Version: 3}, list, cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("list mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestListsAndWatchesFailSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		down := errors.New("down")
		w := start(t.Context(), src, 0)
		src.FailLists(down)
		_, err := src.List(t.Context())
		if err != down {
			t.Errorf("err = %v, want %v", err, down)
		}
		_, open := w.take()
		if !open {
			t.Error("open is false")
		}
		src.FailLists(nil)
		src.FailWatches(down)
		got, open := w.take()
		if want := ([]string{"down"}); !slices.Equal(got, want) {
			t.Errorf("got = %q, want %q", got, want)
		}
		if open {
			t.Error("open is true")
		}
		_, err = src.List(t.Context())
		if err != nil {
			t.Error(err)
		}
		src.FailWatches(nil)
		_, open = start(t.Context(), src, 0).take()
		if !open {
			t.Error("open is false")
		}
	})
}
