package simtest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// inputAt returns an input of the kind "to", of a run at version 9 whose informer has reached version 1.
func inputAt(t *testing.T) *input {
	t.Helper()
	r := newRun(World{}, nil, nil)
	for range 9 {
		put(r.db, "s.1", "a", "{}", "1", "")
	}
	in, err := newInput(&process{run: r, name: "s.1"}, at{version: 1})
	if err != nil {
		t.Fatal(err)
	}
	in.beginList("to")
	return in
}

// A watch that a gap has broken lists again, whether its last change has come or the run ends the gap. A lag ends with the changes
// themselves. Neither ends with the other, nor with a change of another kind.
func TestGapEndsWithListAndLagWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := inputAt(t)
		next := func(want informer.Version, wantErr error) {
			t.Helper()
			if limit, err := in.nextLimit(t.Context(), 3); limit != want || !errors.Is(err, wantErr) {
				t.Errorf("nextLimit = %d, %v, want %d, %v", limit, err, want, wantErr)
			}
		}
		thaws := func(gaps, want bool) {
			t.Helper()
			if got := in.thaw(gaps); got != want {
				t.Errorf("thaw(%v) = %v, want %v", gaps, got, want)
			}
		}

		in.freeze("to", 3, true)
		in.freeze("to", 4, false) // a lag within the gap
		thaws(false, false)
		in.relist("from")
		if got := in.beginList("to"); got != 3 {
			t.Errorf("a list within the gap shows version %d, want 3", got)
		}
		thaws(true, true)
		next(0, backend.ErrExpired)
		if got := in.beginList("to"); got != 9 {
			t.Errorf("the list after the gap shows version %d, want 9", got)
		}

		in.freeze("to", 3, true)
		in.relist("to")
		next(0, backend.ErrExpired)
		in.beginList("to")

		in.freeze("from", 3, false)
		thaws(false, false)
		in.freeze("to", 3, false)
		thaws(false, true)
		next(9, nil)
	})
}

// A lag is fair for 100 reconciles and for a minute, both counted from its beginning, or from the next step of the user.
func TestLagIsFairUpToItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := inputAt(t)
		r := in.p.run
		unfair := func(want string) {
			t.Helper()
			if got := in.unfair(); !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("unfair = %q, want %q", got, want)
			}
		}
		r.reconciles = 150
		unfair("")
		in.freeze("to", 1, false)
		r.reconciles += 100
		unfair("")
		r.reconciles++
		unfair("for 101 reconciles")

		r.reconciles = 0
		in.calm()
		r.reconciles = 100
		unfair("")
		r.reconciles++
		unfair("for 101 reconciles")

		r.reconciles = 0
		time.Sleep(time.Minute)
		unfair("")
		time.Sleep(time.Second)
		unfair("for 1m1s")
		in.thaw(false)
		unfair("")
	})
}
