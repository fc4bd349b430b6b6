package informertest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

func TestHeldSourceLagsAndKeepsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := informertest.NewSource(func(s string) string { return s[:1] })
		src.Put("a1")
		in, err := informer.New(src, src.Key, informer.Config{OnError: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- in.Run(t.Context()) }()
		synctest.Wait()
		src.Put("a2")
		src.Hold()
		src.Put("b1")
		src.Hold()
		src.Delete("a")
		synctest.Wait()
		if got := in.Version(); got != informer.Version(2) {
			t.Errorf("events before Hold were yielded: in.Version() = %v, want %v", got, informer.Version(2))
		}
		list, err := src.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := ([]string{"b1"}); !slices.Equal(list.Items, want) {
			t.Errorf("a list shows the current state: list.Items = %q, want %q", list.Items, want)
		}

		src.Release()
		synctest.Wait()
		if got, want := in.Version(), src.Version(); got != want {
			t.Errorf("in.Version() = %v, want %v", got, want)
		}
		_, ok := in.Get("a")
		if ok {
			t.Error("ok is true")
		}

		src.Hold()
		src.Put("c1")
		time.Sleep(time.Second) // a watch that is shorter, and of no use, is an error
		src.Break(nil)
		synctest.Wait()
		if got := in.Version(); got != informer.Version(4) {
			t.Errorf("a new watch is held, too: in.Version() = %v, want %v", got, informer.Version(4))
		}
		src.Release()
		synctest.Wait()
		if got := in.Version(); got != informer.Version(5) {
			t.Errorf("in.Version() = %v, want %v", got, informer.Version(5))
		}
	})
}
