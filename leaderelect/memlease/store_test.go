package memlease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/wait"
)

const key = "lease"

func TestWatchYieldsCurrentRecordAndEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := memlease.New()
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range s.Watch(ctx, key) {
				if err != nil {
					t.Error(err)
				}
				if e.Key != key {
					t.Errorf("e.Key = %q, want %q", e.Key, key)
				}
				if got, want := e.Value == nil, e.Version == ""; got != want {
					t.Errorf("e.Value == nil = %v, want %v", got, want)
				}
				seen = append(seen, string(e.Value))
			}
		}()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Fatalf("seen mismatch (-want +got):\n%s", diff)
			}
		}
		expect("")
		e, err := s.Create(ctx, leaderelect.Entry{Key: key, Value: []byte("a")})
		if err != nil {
			t.Fatal(err)
		}
		expect("", "a")
		_, err = s.Create(ctx, leaderelect.Entry{Key: "another", Value: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		expect("", "a")
		e.Value = []byte("b")
		_, err = s.Update(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		expect("", "a", "b")
		s.Delete(key)
		expect("", "a", "b", "")
		s.Put(leaderelect.Entry{Key: key, Value: []byte("c")})
		expect("", "a", "b", "", "c")
		cancel()
		<-done
		s.Delete(key)
		expect("", "a", "b", "", "c")
	})
}

func TestSlowWatchYieldsNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlease.New()
		s.Put(leaderelect.Entry{Key: key, Value: []byte{0}})
		var seen []byte
		go func() {
			time.Sleep(time.Second)
			for n := range 100 {
				s.Put(leaderelect.Entry{Key: key, Value: []byte{byte(n + 1)}})
			}
		}()
		for e := range s.Watch(t.Context(), key) {
			time.Sleep(2 * time.Second)
			if seen = append(seen, e.Value[0]); e.Value[0] == 100 {
				break
			}
		}
		if want := ([]byte{0, 100}); !slices.Equal(seen, want) {
			t.Errorf("seen = %v, want %v", seen, want)
		}
	})
}

func TestListReturnsSortedKeysWithPrefix(t *testing.T) {
	s := memlease.New()
	for _, k := range []string{"b", "a/2", "a", "a/1", "a/10", "A/1", ""} {
		s.Put(leaderelect.Entry{Key: k, Value: []byte("of " + k)})
	}
	for prefix, want := range map[string][]string{
		"": {"", "A/1", "a", "a/1", "a/10", "a/2", "b"}, "a/": {"a/1", "a/10", "a/2"}, "a/1": {"a/1", "a/10"}, "c": nil,
	} {
		list, err := s.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, e := range list {
			keys = append(keys, e.Key)
			got, err := s.Get(t.Context(), e.Key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, e); diff != "" {
				t.Errorf("e mismatch (-want +got):\n%s", diff)
			}
			e.Value[0] = '#'
			again, _ := s.Get(t.Context(), e.Key)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a copy: again mismatch (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("%q: keys mismatch (-want +got):\n%s", prefix, diff)
		}
	}
}

func TestFloorGrowsWithEveryWriteAndIsKept(t *testing.T) {
	s := memlease.New()
	var last uint64
	for range 3 {
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: key, Floor: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if e.Floor <= last {
			t.Fatalf("e.Floor = %v, want more than %v", e.Floor, last)
		}
		last = e.Floor
		e, err = s.Update(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Floor <= last {
			t.Fatalf("e.Floor = %v, want more than %v", e.Floor, last)
		}
		last = e.Floor
		got, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got.Floor != last {
			t.Fatalf("got.Floor = %v, want %v", got.Floor, last)
		}
		s.Delete(key)
	}
	if last >= uint64(1000) {
		t.Errorf("last = %v, want less than %v", last, uint64(1000))
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlease.New()
		boom := errors.New("boom")
		var calls []memlease.Call
		fail := func(context.Context, memlease.Call) error { return boom }
		note := func(_ context.Context, c memlease.Call) error { calls = append(calls, c); return nil }

		s.Inject(memlease.Faults{Before: fail, After: note})
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: key})
		if !errors.Is(err, boom) {
			t.Fatalf("err = %v, want %v", err, boom)
		}
		if diff := cmp.Diff(leaderelect.Entry{}, e); diff != "" {
			t.Errorf("e mismatch (-want +got):\n%s", diff)
		}
		if len(calls) != 0 {
			t.Errorf("calls = %v, want none", calls)
		}
		s.Inject(memlease.Faults{Before: note, After: fail})
		e, err = s.Create(t.Context(), leaderelect.Entry{Key: key, Value: []byte("a")})
		if !errors.Is(err, boom) {
			t.Fatalf("the reply is lost: err = %v, want %v", err, boom)
		}
		if diff := cmp.Diff(leaderelect.Entry{}, e); diff != "" {
			t.Errorf("e mismatch (-want +got):\n%s", diff)
		}
		_, err = s.List(t.Context(), "le")
		if !errors.Is(err, boom) {
			t.Fatalf("err = %v, want %v", err, boom)
		}
		if diff := cmp.Diff([]memlease.Call{{Op: "create", Key: key}, {Op: "list", Key: "le"}}, calls); diff != "" {
			t.Errorf("calls mismatch (-want +got):\n%s", diff)
		}

		s.Inject(memlease.Faults{Before: func(ctx context.Context, _ memlease.Call) error { return wait.Sleep(ctx, time.Hour) }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err = s.Get(ctx, key)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want %v", err, context.DeadlineExceeded)
		}
		if got := time.Since(begin); got != time.Second {
			t.Errorf("time.Since(begin) = %v, want %v", got, time.Second)
		}

		s.Inject(memlease.Faults{})
		e, err = s.Get(t.Context(), key)
		if err != nil {
			t.Fatalf("it took effect: %v", err)
		}
		if got := string(e.Value); got != "a" {
			t.Errorf("string(e.Value) = %q, want %q", got, "a")
		}
	})
}
