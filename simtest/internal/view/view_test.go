package view_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	v.Lists("to")
	return v
}

// A lag is fair for 100 reconciles and for a minute, both counted from its beginning, or from the next step of the user.
func TestLagIsFairUpToItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{reconciles: 150}
		v := viewIn(t, r)
		assert.Empty(t, v.Unfair(), "it does not lag")
		v.Freeze("to", 1, false)
		r.reconciles += 100
		assert.Empty(t, v.Unfair())
		r.reconciles++
		assert.Contains(t, v.Unfair(), "for 101 reconciles")

		r.reconciles = 0
		v.Calm()
		r.reconciles = 100
		assert.Empty(t, v.Unfair())
		r.reconciles++
		assert.Contains(t, v.Unfair(), "for 101 reconciles")

		r.reconciles = 0
		time.Sleep(time.Minute)
		assert.Empty(t, v.Unfair())
		time.Sleep(time.Second)
		assert.Contains(t, v.Unfair(), "for 1m1s")
		v.Thaw(false)
		assert.Empty(t, v.Unfair())
	})
}

// A lag within a gap does not end the gap, and the next lag is none.
func TestGapEndsWithItsThaw(t *testing.T) {
	v := viewIn(t, &run{})
	v.Freeze("to", 1, true)
	v.Freeze("to", 2, false)
	assert.False(t, v.Thaw(false))
	assert.True(t, v.Thaw(true))
	v.Freeze("from", 3, false)
	assert.False(t, v.Thaw(false), "it is of another kind")
	v.Freeze("to", 3, false)
	assert.True(t, v.Thaw(false))
}
