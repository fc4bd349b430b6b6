package outcome_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

type conflict bool

func (conflict) Error() string    { return "conflict" }
func (c conflict) Conflict() bool { return bool(c) }

type fenced bool

func (fenced) Error() string  { return "fenced" }
func (f fenced) Fenced() bool { return bool(f) }

var errBusy = errors.New("busy")

// branches are errors, and what each of them means alone.
var branches = []struct {
	name string
	err  error
	kind outcome.Kind
}{
	{"a failure", errBusy, outcome.Failed},
	{"a failure with a delay", &outcome.AfterError{Err: errBusy, Delay: time.Second}, outcome.Failed},
	{"no conflict", conflict(false), outcome.Failed},
	{"not fenced", fenced(false), outcome.Failed},
	{"a conflict", conflict(true), outcome.Conflict},
	{"a wrapped conflict", fmt.Errorf("put: %w", conflict(true)), outcome.Conflict},
	{"a conflict with a delay", &outcome.AfterError{Err: conflict(true), Delay: time.Second}, outcome.Conflict},
	{"not yet", &outcome.NotYetError{Err: errBusy}, outcome.NotYet},
	{"not yet because of a conflict", &outcome.NotYetError{Err: conflict(true)}, outcome.NotYet},
	{"permanent", &outcome.PermanentError{Err: errBusy}, outcome.Permanent},
	{"a permanent conflict", fmt.Errorf("put: %w", &outcome.PermanentError{Err: conflict(true)}), outcome.Permanent},
	{"a fenced write", fmt.Errorf("put: %w", fenced(true)), outcome.Fenced},
	{"a fenced write, permanent", &outcome.PermanentError{Err: fenced(true)}, outcome.Fenced},
}

// Of three joined errors, the first of this list that is among them decides.
var precedence = []outcome.Kind{outcome.Fenced, outcome.Permanent, outcome.Failed, outcome.Conflict, outcome.NotYet}

func TestWorstOfJoinedErrorsDecides(t *testing.T) {
	for _, a := range branches {
		for _, b := range branches {
			for _, c := range branches {
				var want outcome.Kind
				for _, want = range precedence {
					if a.kind == want || b.kind == want || c.kind == want {
						break
					}
				}
				for how, err := range map[string]error{
					"flat":   errors.Join(a.err, b.err, c.err),
					"nested": errors.Join(a.err, fmt.Errorf("more: %w", errors.Join(b.err, nil, c.err))),
					"text":   fmt.Errorf("%w, %w, %w", a.err, b.err, c.err),
				} {
					if got := outcome.Of(err, false, false); got != want {
						t.Errorf("%s of %s, %s, %s: %v, not %v", how, a.name, b.name, c.name, got, want)
					}
				}
			}
		}
	}
}

func TestEachErrorAlone(t *testing.T) {
	for _, b := range branches {
		want := map[[2]bool]outcome.Kind{
			{false, false}: b.kind, {false, true}: b.kind, {true, false}: outcome.Stopped, {true, true}: outcome.Stopped,
		}
		if b.kind == outcome.Conflict {
			want[[2]bool{false, true}] = outcome.Failed
		}
		for is, kind := range want {
			if got := outcome.Of(b.err, is[0], is[1]); got != kind {
				t.Errorf("%s, stopped %v, too many conflicts %v: %v, not %v", b.name, is[0], is[1], got, kind)
			}
		}
	}
}
