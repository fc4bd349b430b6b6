package agenda_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
)

func TestKeyHasCausesSinceLastTake(t *testing.T) {
	var b agenda.Causes[string]
	assert.Nil(t, b.Take("a"))
	b.Note("a", "1")
	b.Note("a", "2")
	b.Note("a", "1")
	b.Note("b", "3")
	require.NoError(t, b.CheckInvariants())
	assert.Nil(t, b.Take("c"))
	assert.Equal(t, []string{"1", "2"}, b.Take("a"), "each once, the oldest first")
	assert.Nil(t, b.Take("a"))
	assert.Equal(t, 1, b.Len())
	assert.Equal(t, []string{"3"}, b.Take("b"))
	assert.Zero(t, b.Len())
	require.NoError(t, b.CheckInvariants())
}

func TestOldestAndNewestCausesAreKept(t *testing.T) {
	var b agenda.Causes[string]
	for i := range agenda.MaxCauses + 3 {
		b.Note("a", fmt.Sprint(i))
		require.NoError(t, b.CheckInvariants())
	}
	assert.Equal(t, []string{"0", "4", "5", "6", "7", "8", "9", "10"}, b.Take("a"))
}

func TestRestoredCausesPrecedeNewerOnes(t *testing.T) {
	var b agenda.Causes[string]
	b.Restore("a", nil)
	assert.Zero(t, b.Len())
	for _, c := range []string{"1", "2", "3"} {
		b.Note("a", c)
	}
	taken := b.Take("a")
	b.Restore("a", taken)
	assert.Equal(t, []string{"1", "2", "3"}, b.Take("a"))
	for i := range agenda.MaxCauses - 1 {
		b.Note("a", fmt.Sprint("new ", i))
	}
	b.Note("a", "2")
	b.Restore("a", taken)
	require.NoError(t, b.CheckInvariants())
	assert.Equal(t, []string{"1", "new 1", "new 2", "new 3", "new 4", "new 5", "new 6", "2"}, b.Take("a"))
	assert.Equal(t, []string{"1", "2", "3"}, taken, "a list that was taken never changes")
}

func TestCausesReleaseMemoryAfterBurst(t *testing.T) {
	var b agenda.Causes[int]
	for i := range 5000 {
		b.Note(i, "1")
	}
	require.NoError(t, b.CheckInvariants())
	for i := range 5000 {
		assert.Equal(t, b.HasMap(), true)
		b.Take(i)
	}
	assert.False(t, b.HasMap())
	b.Note(1, "1")
	b.Take(1)
	assert.True(t, b.HasMap())
	require.NoError(t, b.CheckInvariants())
}
