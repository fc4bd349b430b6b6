package agenda_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
)

func TestNoDeferredKeyIsLost(t *testing.T) {
	for range 20 {
		var l agenda.Holds[int]
		l.Divert()
		var adding sync.WaitGroup
		taken := make([]int, 2)
		for i := range taken {
			adding.Go(func() {
				for l.Leave(2*taken[i]+i, 0, "") {
					taken[i]++
				}
			})
		}
		for l.Len() < 4 {
			runtime.Gosched()
		}
		keys := l.Undivert()
		adding.Wait()
		if got, want := len(keys), taken[0]+taken[1]; got != want {
			t.Fatalf("len(keys) = %v, want %v", got, want)
		} // not Len: there may be many
	}
}

func TestDeferredKeyMergesItsOptions(t *testing.T) {
	var l agenda.Holds[string]
	if l.Leave("a", 0, "") {
		t.Error(`nothing drains: l.Leave("a", 0, "") is true`)
	}
	if l.Diverting() {
		t.Error("l.Diverting() is true")
	}
	l.Divert()
	if !l.Diverting() {
		t.Error("l.Diverting() is false")
	}
	for _, k := range []agenda.Later[string]{{Priority: 1, Reason: "x"}, {Priority: 3}, {Priority: 2, Reason: "y"}, {Priority: -1}} {
		if !l.Leave("a", k.Priority, k.Reason) {
			t.Error(`l.Leave("a", k.Priority, k.Reason) is false`)
		}
		l.Leave("b", 0, "")
		if err := l.CheckInvariants(); err != nil {
			t.Fatalf("l.CheckInvariants(): %v", err)
		}
	}
	keys := l.Undivert()
	for i, want := range []agenda.Later[string]{{Key: "a", Priority: 3, Reason: "y"}, {Key: "b"}} {
		want.Since = keys[i].Since
		if diff := cmp.Diff(want, keys[i]); diff != "" {
			t.Errorf("keys[i] mismatch (-want +got):\n%s", diff)
		}
	}
	if len(keys) != 2 {
		t.Errorf("len(keys) = %d, want 2: %v", len(keys), keys)
	}
	if got := l.Len(); got != 2 {
		t.Errorf("until they are in the queue: l.Len() = %v, want 2", got)
	}
	if l.Leave("a", 0, "") {
		t.Error(`l.Leave("a", 0, "") is true`)
	}
	l.Release(2)
	if got := l.Len(); got != 0 {
		t.Errorf("l.Len() = %v, want 0", got)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatalf("l.CheckInvariants(): %v", err)
	}
	l.Divert()
	if got := l.Undivert(); len(got) != 0 {
		t.Errorf("each once: l.Undivert() = %v, want none", got)
	}
}

func TestPausedKeyIsHeldWhenDue(t *testing.T) {
	var l agenda.Holds[string]
	if l.Pausing("a") {
		t.Error(`l.Pausing("a") is true`)
	}
	l.Pause("a")
	l.Pause("b")
	if got := l.Len(); got != 0 {
		t.Errorf("l.Len() = %v, want 0", got)
	}
	for range 2 {
		if !l.Pausing("a") {
			t.Error(`l.Pausing("a") is false`)
		}
		if got := l.Len(); got != 1 {
			t.Errorf("l.Len() = %v, want 1", got)
		}
		if err := l.CheckInvariants(); err != nil {
			t.Fatalf("l.CheckInvariants(): %v", err)
		}
	}
	l.Pause("a")
	if l.Pausing("c") {
		t.Error(`l.Pausing("c") is true`)
	}
	if l.Unpause("b") {
		t.Error(`it was not paused: l.Unpause("b") is true`)
	}
	if !l.Unpause("a") {
		t.Error(`l.Unpause("a") is false`)
	}
	if got := l.Len(); got != 1 {
		t.Errorf("until it is in the queue: l.Len() = %v, want 1", got)
	}
	l.Release(1)
	if l.Unpause("a") {
		t.Error(`l.Unpause("a") is true`)
	}
	if l.Pausing("a") {
		t.Error(`l.Pausing("a") is true`)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatalf("l.CheckInvariants(): %v", err)
	}
}

func TestReleaseNeedsCurrentWaitNumber(t *testing.T) {
	var l agenda.Holds[string]
	until := time.Now()
	first := l.Wait("a", until, 0)
	l.Wait("b", time.Time{}, 0)
	second := l.Wait("a", until.Add(1), 0)
	if second == first {
		t.Errorf("second = %v, want another", second)
	}
	if got := l.Len(); got != 2 {
		t.Errorf("l.Len() = %v, want 2", got)
	}
	if got, want := l.AllWaiting(), ([]string{"b", "a"}); !slices.Equal(got, want) {
		t.Errorf("as they were held: l.AllWaiting() = %q, want %q", got, want)
	}
	if l.UnwaitIf("a", first) {
		t.Error(`l.UnwaitIf("a", first) is true`)
	}
	number, ok := l.Waiting("a")
	if !ok {
		t.Error("ok is false")
	}
	if number != second {
		t.Errorf("number = %v, want %v", number, second)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatalf("l.CheckInvariants(): %v", err)
	}
	if !l.UnwaitIf("a", second) {
		t.Error(`l.UnwaitIf("a", second) is false`)
	}
	if l.UnwaitIf("a", second) {
		t.Error(`l.UnwaitIf("a", second) is true`)
	}
	_, ok = l.Waiting("a")
	if ok {
		t.Error("ok is true")
	}
	_, ok = l.Unwait("a")
	if ok {
		t.Error("ok is true")
	}
	w, ok := l.Unwait("b")
	if !ok {
		t.Error("ok is false")
	}
	if !w.Until.IsZero() {
		t.Errorf("w.Until = %v, want the zero time", w.Until)
	}
	if got := l.Len(); got != 0 {
		t.Errorf("l.Len() = %v, want 0", got)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatalf("l.CheckInvariants(): %v", err)
	}
}

func TestWaitEmptyReturnsWhenNothingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l agenda.Holds[string]
		before, err := l.WaitEmpty(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !l.Unchanged(before) {
			t.Error("l.Unchanged(before) is false")
		}
		l.Wait("a", time.Time{}, 0)
		l.Wait("b", time.Time{}, 0)
		if l.Unchanged(before) {
			t.Error("l.Unchanged(before) is true")
		}
		returned := make(chan uint64, 2)
		for range 2 {
			go func() {
				changes, err := l.WaitEmpty(t.Context())
				if err != nil {
					t.Error(err)
				}
				returned <- changes
			}()
		}
		synctest.Wait()
		l.Unwait("a")
		synctest.Wait()
		if len(returned) != 0 {
			t.Errorf("returned = %v, want none", returned)
		}
		l.Unwait("b")
		if !l.Unchanged(<-returned) {
			t.Error("l.Unchanged(<-returned) is false")
		}
		if !l.Unchanged(<-returned) {
			t.Error("l.Unchanged(<-returned) is false")
		}
		if err := l.CheckInvariants(); err != nil {
			t.Fatalf("l.CheckInvariants(): %v", err)
		}

		l.Wait("a", time.Time{}, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("no more")) })
		_, err = l.WaitEmpty(ctx)
		if got := fmt.Sprint(err); got != "no more" {
			t.Fatalf("err = %q, want %q", got, "no more")
		}
	})
}

func TestHeldKnowsLongestHeldKeyOfEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l agenda.Holds[string]
		began := time.Now()
		ages := func() (ages [3]int) { // of the paused, and of those that wait for 0 and 1; -1 for none
			held := l.Held()
			groups := append([]agenda.Group{held.Paused}, held.On...)
			for i := range ages {
				ages[i] = -1
				if i < len(groups) && groups[i].Keys > 0 {
					ages[i] = int(groups[i].Since.Sub(began) / time.Second)
				}
			}
			if err := l.CheckInvariants(); err != nil {
				t.Fatalf("l.CheckInvariants(): %v", err)
			}
			return ages
		}
		if got, want := ages(), ([3]int{-1, -1, -1}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			l.Wait(key, time.Time{}, 0)
			l.Pause(key)
			time.Sleep(time.Second)
			l.Pausing(key)
		}
		if got, want := ages(), ([3]int{1, 0, -1}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
		l.Wait("a", time.Time{}, 0)
		l.Pause("a")
		l.Pausing("a")
		if got, want := ages(), ([3]int{1, 0, -1}); got != want {
			t.Errorf("it stays first: ages() = %v, want %v", got, want)
		}
		l.Wait("a", time.Time{}, 1)
		if got, want := ages(), ([3]int{1, 1, 4}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
		unpause := func(key string) {
			if !l.Unpause(key) {
				t.Error("l.Unpause(key) is false")
			}
			l.Release(1)
		}
		l.Unwait("c") // in the middle
		unpause("c")
		if got, want := ages(), ([3]int{1, 1, 4}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
		l.Unwait("b")
		unpause("a")
		unpause("d") // the last
		if got, want := ages(), ([3]int{2, 3, 4}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
		l.Unwait("d")
		l.Unwait("a")
		unpause("b")
		if got, want := ages(), ([3]int{-1, -1, -1}); got != want {
			t.Errorf("ages() = %v, want %v", got, want)
		}
	})
}
