package view_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/store/backend"
)

// A watch that a gap has broken lists again, whether its last change has come or the run ends the gap.
func TestGapEndsWithList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, true)
		if !v.Thaw(true) {
			t.Error("there was no gap to end")
		}
		if _, err := v.Next(t.Context(), 3); !errors.Is(err, backend.ErrExpired) {
			t.Errorf("Next after the gap returns %v, want %v", err, backend.ErrExpired)
		}
		if got := v.Lists("to"); got != 9 {
			t.Errorf(`v.Lists("to") = %d, want 9`, got)
		}

		v.Freeze("to", 3, true)
		v.Relist("to")
		if _, err := v.Next(t.Context(), 3); !errors.Is(err, backend.ErrExpired) {
			t.Errorf("Next after the last change returns %v, want %v", err, backend.ErrExpired)
		}
	})
}

// A lag ends with the changes themselves.
func TestLagEndsWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, false)
		if !v.Thaw(false) {
			t.Error("there was no lag to end")
		}
		if limit, err := v.Next(t.Context(), 3); limit != 9 || err != nil {
			t.Errorf("Next returns %d, %v, want 9", limit, err)
		}
	})
}

// A gap ends neither with a lag, nor with a change of another kind.
func TestGapLastsUntilItsLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, true)
		if v.Thaw(false) {
			t.Error("a lag has ended")
		}
		v.Relist("from")
		if got := v.Lists("to"); got != 3 {
			t.Errorf(`v.Lists("to") = %d, want 3`, got)
		}
	})
}
