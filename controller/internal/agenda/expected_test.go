package agenda_test

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
)

// expectation waits until a time, and has at most one listener.
type expectation struct {
	at      time.Time
	waiting bool
	told    func(string)
}

func (e *expectation) Expires(string) (time.Time, bool) { return e.at, e.waiting }

func (e *expectation) Notify(f func(string)) (stop func()) {
	e.told = f
	return func() { e.told = nil }
}

func TestKeyWaitsForLastOfItsExpectations(t *testing.T) {
	soon, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		all     []*expectation
		until   time.Time
		on      int
		waiting bool
	}{
		{nil, time.Time{}, 0, false},
		{[]*expectation{{}, {at: late}}, time.Time{}, 0, false},
		{[]*expectation{{at: soon, waiting: true}, {at: late, waiting: true}, {}}, late, 1, true},
		{[]*expectation{{at: late, waiting: true}, {at: soon, waiting: true}}, late, 0, true},
		{[]*expectation{{}, {waiting: true}, {at: soon, waiting: true}}, time.Time{}, 1, true},
		{[]*expectation{{at: soon, waiting: true}, {waiting: true}}, time.Time{}, 1, true},
	} {
		var all agenda.All[string]
		for _, e := range c.all {
			all = append(all, e)
		}
		until, on, waiting := all.Expires("key")
		if !until.Equal(c.until) {
			t.Errorf("until = %v, want %v", until, c.until)
		}
		if on != c.on {
			t.Errorf("on = %v, want %v", on, c.on)
		}
		if waiting != c.waiting {
			t.Errorf("waiting = %v, want %v", waiting, c.waiting)
		}
	}
}

func TestAllNotifiesUntilStopped(t *testing.T) {
	a, b := &expectation{}, &expectation{}
	var told []string
	stop := agenda.All[string]{a, b}.Notify(func(key string) { told = append(told, key) })
	a.told("x")
	b.told("y")
	if want := ([]string{"x", "y"}); !slices.Equal(told, want) {
		t.Errorf("told = %q, want %q", told, want)
	}
	stop()
	if a.told != nil {
		t.Error("a.told is left")
	}
	if b.told != nil {
		t.Error("b.told is left")
	}
}
