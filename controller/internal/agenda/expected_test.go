package agenda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
		assert.Equal(t, c.until, until)
		assert.Equal(t, c.on, on)
		assert.Equal(t, c.waiting, waiting)
	}
}

func TestAllNotifiesUntilStopped(t *testing.T) {
	a, b := &expectation{}, &expectation{}
	var told []string
	stop := agenda.All[string]{a, b}.Notify(func(key string) { told = append(told, key) })
	a.told("x")
	b.told("y")
	assert.Equal(t, []string{"x", "y"}, told)
	stop()
	assert.Nil(t, a.told)
	assert.Nil(t, b.told)
}
