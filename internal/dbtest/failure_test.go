package dbtest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/dbtest"
)

func TestFailureIsTheFirstOneOfACase(t *testing.T) {
	var order []string
	for want, run := range map[string]func(t testing.TB){
		"":         func(testing.TB) {},
		"one":      func(t testing.TB) { t.Errorf("o%s", "ne"); t.Fatal("two") },
		"three":    func(t testing.TB) { t.Fatalf("thr%s", "ee") },
		"four":     func(t testing.TB) { t.Cleanup(func() { t.Error("four") }) },
		"panic: 5": func(testing.TB) { panic(5) },
		"six": func(t testing.TB) {
			t.Cleanup(func() {
				order = append(order, "last")
				if t.Context().Err() == nil || !t.Failed() {
					t.Fatal("seven")
				}
			})
			t.Cleanup(func() { order = append(order, "first") })
			t.Error("six")
			t.FailNow()
			order = append(order, "never")
		},
	} {
		if got := dbtest.Failure(t, run); got != want {
			t.Errorf("dbtest.Failure = %q, want %q", got, want)
		}
	}
	if want := []string{"first", "last"}; !slices.Equal(order, want) {
		t.Errorf("the cleanups ran in the order %q, want %q", order, want)
	}
	for _, skip := range []func(t testing.TB){
		func(t testing.TB) { t.Skip("x"); t.Error("after a skip") },
		func(t testing.TB) { t.Skipf("x"); t.Error("after a skip") },
		func(t testing.TB) { t.SkipNow(); t.Error("after a skip") },
	} {
		if got := dbtest.Failure(t, skip); got != "" {
			t.Errorf("dbtest.Failure = %q, want no failure", got)
		}
	}
}

func TestSilentCaseFailsWithin(t *testing.T) {
	got := dbtest.FailureWithin(t, time.Millisecond, func(t testing.TB) {
		<-t.Context().Done() // a watch that misses a change
		t.Error(context.Cause(t.Context()))
	})
	if want := "context deadline exceeded"; got != want {
		t.Errorf("the failure is %q, want %q", got, want)
	}
}
