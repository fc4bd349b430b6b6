package streak_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
)

func TestConsecutiveConflictsAreCounted(t *testing.T) {
	var b streak.Book[string]
	b.End("a")
	if got := b.Failed("a", true); !got.IsZero() {
		t.Errorf(`b.Failed("a", true) = %v, want the zero time`, got)
	}
	for i := range 3 {
		n, since := b.Unfinished("a", true, false)
		if want := i + 1; n != want {
			t.Errorf("n = %v, want %v", n, want)
		}
		if !since.IsZero() {
			t.Errorf("nothing is limited: since = %v, want the zero time", since)
		}
		if err := b.CheckInvariants(); err != nil {
			t.Fatalf("b.CheckInvariants(): %v", err)
		}
	}
	if got := b.Conflicts("a"); got != 3 {
		t.Errorf(`b.Conflicts("a") = %v, want 3`, got)
	}
	if got := b.Conflicts("b"); got != 0 {
		t.Errorf(`b.Conflicts("b") = %v, want 0`, got)
	}
	b.Failed("a", true)
	if got := b.Conflicts("a"); got != 3 {
		t.Errorf(`a conflict that counts as a failure is still a conflict: b.Conflicts("a") = %v, want 3`, got)
	}
	b.Failed("a", false)
	if got := b.Conflicts("a"); got != 0 {
		t.Errorf(`b.Conflicts("a") = %v, want 0`, got)
	}
	if got := b.Len(); got != 0 {
		t.Errorf("there is nothing to remember: b.Len() = %v, want 0", got)
	}

	b.Unfinished("a", true, false)
	n, _ := b.Unfinished("a", false, false)
	if n != 0 {
		t.Errorf("n = %v, want 0", n)
	}
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	b.Unfinished("a", true, false)
	b.End("a")
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
}

func TestFirstUnfinishedReconcileIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b streak.Book[string]
		first := time.Now()
		for range 3 {
			_, since := b.Unfinished("a", false, true)
			if !since.Equal(first) {
				t.Errorf("since = %v, want %v", since, first)
			}
			if got := b.Failed("a", false); !got.Equal(first) {
				t.Errorf(`b.Failed("a", false) = %v, want %v`, got, first)
			}
			time.Sleep(time.Second)
		}
		if got := b.Failed("b", false); !got.IsZero() {
			t.Errorf(`b.Failed("b", false) = %v, want the zero time`, got)
		}
		b.End("a")
		_, since := b.Unfinished("a", false, true)
		if got := since.Sub(first); got != 3*time.Second {
			t.Errorf("since.Sub(first) = %v, want %v", got, 3*time.Second)
		}
	})
}

func TestProbeLastsUntilEventOrEnd(t *testing.T) {
	var b streak.Book[string]
	begin := func(parked bool) {
		t.Helper()
		if !b.BeginProbe("a") {
			t.Fatal(`b.BeginProbe("a") is false`)
		}
		if b.IsProbe("a") {
			t.Error(`it may not be parked: b.IsProbe("a") is true`)
		}
		if b.BeginProbe("a") {
			t.Error(`one at a time: b.BeginProbe("a") is true`)
		}
		b.EndProbe("a", parked)
		if got := b.IsProbe("a"); got != parked {
			t.Errorf(`b.IsProbe("a") = %v, want %v`, got, parked)
		}
		if err := b.CheckInvariants(); err != nil {
			t.Fatalf("b.CheckInvariants(): %v", err)
		}
	}
	b.ClearProbe("a")
	begin(false)
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	begin(true)
	if b.IsProbe("b") {
		t.Error(`b.IsProbe("b") is true`)
	}
	if b.BeginProbe("a") {
		t.Error(`the attempt is left: b.BeginProbe("a") is true`)
	}
	b.EndProbe("a", false)
	if !b.IsProbe("a") {
		t.Error(`b.IsProbe("a") is false`)
	}
	b.Unfinished("a", true, false)
	if !b.IsProbe("a") {
		t.Error(`b.IsProbe("a") is false`)
	}
	b.ClearProbe("a")
	if b.IsProbe("a") {
		t.Error(`b.IsProbe("a") is true`)
	}
	if got := b.Conflicts("a"); got != 1 {
		t.Errorf(`b.Conflicts("a") = %v, want 1`, got)
	}
	begin(true)
	b.Parked("a", true)
	if !b.IsProbe("a") {
		t.Error(`b.IsProbe("a") is false`)
	}
	if got := b.Conflicts("a"); got != 0 {
		t.Errorf(`b.Conflicts("a") = %v, want 0`, got)
	}
	b.End("a")
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}

	b.BeginProbe("a")
	b.ClearProbe("a") // an event revives the key just before it is taken out
	b.EndProbe("a", true)
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	b.BeginProbe("a")
	b.End("a") // its last attempt ends, and parks it
	b.EndProbe("a", true)
	if !b.IsProbe("a") {
		t.Error(`b.IsProbe("a") is false`)
	}
}

func TestEventsCancelReconcileUpToLimit(t *testing.T) {
	f := streak.NewFlights[string]()
	if got := f.UnderWay("a"); got != nil {
		t.Errorf(`f.UnderWay("a") = %v, want nil`, got)
	}
	var ended error
	begin := func() { ended = nil; f.Begin("a", func(cause error) { ended = cause }) }
	for range streak.MaxSuperseded {
		begin()
		if err := f.CheckInvariants(false); err == nil {
			t.Fatal("f.CheckInvariants(false) = nil, want an error")
		}
		f.UnderWay("a")(context.Canceled)
		if !errors.Is(ended, context.Canceled) {
			t.Fatalf("ended = %v, want %v", ended, context.Canceled)
		}
		f.End("a", true)
		if err := f.CheckInvariants(false); err != nil {
			t.Fatalf("f.CheckInvariants(false): %v", err)
		}
	}
	begin()
	if got := f.UnderWay("a"); got != nil {
		t.Errorf(`not canceled anymore: f.UnderWay("a") = %v, want nil`, got)
	}
	f.End("a", false)
	begin()
	f.UnderWay("a")(errors.New("x"))
	if got := fmt.Sprint(ended); got != "x" {
		t.Fatalf("ended = %q, want %q", got, "x")
	}
	f.End("a", false)
	if got := f.UnderWay("a"); got != nil {
		t.Errorf(`f.UnderWay("a") = %v, want nil`, got)
	}
}

func TestBudgetLimitsAttemptsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unknown time.Time
		now := time.Now()
		ago := func(d time.Duration) time.Time { return now.Add(-d) }
		if (streak.Budget{}.Spent(1000, ago(time.Hour), ago(time.Hour))) {
			t.Error("zero is no limit: streak.Budget{}.Spent(1000, ago(time.Hour), ago(time.Hour)) is true")
		}
		if (streak.Budget{Attempts: 3}.Spent(2, unknown, ago(time.Hour))) {
			t.Error("streak.Budget{Attempts: 3}.Spent(2, unknown, ago(time.Hour)) is true")
		}
		if !(streak.Budget{Attempts: 3}.Spent(3, unknown, unknown)) {
			t.Error("streak.Budget{Attempts: 3}.Spent(3, unknown, unknown) is false")
		}
		b := streak.Budget{Elapsed: time.Minute}
		if b.Spent(1, unknown, unknown) {
			t.Error("the first failure is not the last one: b.Spent(1, unknown, unknown) is true")
		}
		for _, known := range [][2]time.Time{
			{ago(time.Minute), unknown}, {unknown, ago(time.Minute)}, {ago(time.Minute), now}, {now, ago(time.Minute)},
		} {
			if !b.Spent(1, known[0], known[1]) {
				t.Error("b.Spent(1, known[0], known[1]) is false")
			}
			if got := b.Left(known[0], known[1]); got != 0 {
				t.Errorf("b.Left(known[0], known[1]) = %v, want 0", got)
			}
		}
		if b.Spent(1, ago(time.Minute-1), unknown) {
			t.Error("b.Spent(1, ago(time.Minute-1), unknown) is true")
		}
		if got := b.Left(ago(time.Minute-1), now); got != time.Nanosecond {
			t.Errorf("b.Left(ago(time.Minute-1), now) = %v, want %v", got, time.Nanosecond)
		}
	})
}
