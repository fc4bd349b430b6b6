package view_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// run is a [view.Run] with a number of reconciles.
type run struct{ reconciles int }

func (r *run) Version() informer.Version { return 9 }
func (r *run) Reconciles() int           { return r.reconciles }
func (r *run) WakeUp()                   {}
func (r *run) Touch()                    {}

// mirror is an informer.
type mirror struct{}

func (mirror) Version() informer.Version { return 1 }

func viewIn(t *testing.T, r *run) *view.View {
	t.Helper()
	v, err := view.New(mirror{}, "s.1", r)
	if err != nil {
		t.Fatal(err)
	}
	v.Lists("to")
	return v
}

// A lag is fair for 100 reconciles and for a minute, both counted from its beginning, or from the next step of the user.
func TestLagIsFairUpToItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{reconciles: 150}
		v := viewIn(t, r)
		if got := v.Unfair(); got != "" {
			t.Errorf(`v.Unfair() = %q, want "": it does not lag`, got)
		}
		v.Freeze("to", 1, false)
		r.reconciles += 100
		if got := v.Unfair(); got != "" {
			t.Errorf(`v.Unfair() = %q, want ""`, got)
		}
		r.reconciles++
		if got := v.Unfair(); !strings.Contains(got, "for 101 reconciles") {
			t.Errorf(`v.Unfair() = %q, want it to contain "for 101 reconciles"`, got)
		}

		r.reconciles = 0
		v.Calm()
		r.reconciles = 100
		if got := v.Unfair(); got != "" {
			t.Errorf(`v.Unfair() = %q, want ""`, got)
		}
		r.reconciles++
		if got := v.Unfair(); !strings.Contains(got, "for 101 reconciles") {
			t.Errorf(`v.Unfair() = %q, want it to contain "for 101 reconciles"`, got)
		}

		r.reconciles = 0
		time.Sleep(time.Minute)
		if got := v.Unfair(); got != "" {
			t.Errorf(`v.Unfair() = %q, want ""`, got)
		}
		time.Sleep(time.Second)
		if got := v.Unfair(); !strings.Contains(got, "for 1m1s") {
			t.Errorf(`v.Unfair() = %q, want it to contain "for 1m1s"`, got)
		}
		v.Thaw(false)
		if got := v.Unfair(); got != "" {
			t.Errorf(`v.Unfair() = %q, want ""`, got)
		}
	})
}

// A lag within a gap does not end the gap, and the next lag is none.
func TestGapEndsWithItsThaw(t *testing.T) {
	v := viewIn(t, &run{})
	v.Freeze("to", 1, true)
	v.Freeze("to", 2, false)
	if v.Thaw(false) {
		t.Error("v.Thaw(false) = true, want false")
	}
	if !v.Thaw(true) {
		t.Error("v.Thaw(true) = false, want true")
	}
	v.Freeze("from", 3, false)
	if v.Thaw(false) {
		t.Error("v.Thaw(false) = true, want false: it is of another kind")
	}
	v.Freeze("to", 3, false)
	if !v.Thaw(false) {
		t.Error("v.Thaw(false) = false, want true")
	}
}
