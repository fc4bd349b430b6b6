package view_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/backend"
)

// A watch that a gap has broken lists again, whether its last change has come or the run ends the gap.
func TestGapEndsWithList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, true)
		require.True(t, v.Thaw(true))
		_, err := v.Next(t.Context(), 3)
		require.ErrorIs(t, err, backend.ErrExpired)
		assert.EqualValues(t, 9, v.Lists("to"))

		v.Freeze("to", 3, true)
		v.Relist("to")
		_, err = v.Next(t.Context(), 3)
		require.ErrorIs(t, err, backend.ErrExpired)
	})
}

// A lag ends with the changes themselves.
func TestLagEndsWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, false)
		require.True(t, v.Thaw(false))
		limit, err := v.Next(t.Context(), 3)
		require.NoError(t, err)
		assert.EqualValues(t, 9, limit)
	})
}

// A gap ends neither with a lag, nor with a change of another kind.
func TestGapLastsUntilItsLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewIn(t, &run{})
		v.Freeze("to", 3, true)
		assert.False(t, v.Thaw(false))
		v.Relist("from")
		assert.EqualValues(t, 3, v.Lists("to"))
	})
}
