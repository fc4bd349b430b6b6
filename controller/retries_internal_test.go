package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

func TestSpentBudgetStaysSpentUntilEnd(t *testing.T) {
	var b unfinishedKeys[string]
	assert.Zero(t, b.of("a"))
	b.end("a")
	b.parkFailed("a")
	b.edit("a", func(state *unfinishedKey) { state.Continue(outcome.Conflict, 0, outcome.Budget{}, time.Time{}) })
	assert.True(t, b.failed("a", false).parkFailed)
	assert.Equal(t, unfinishedKey{parkFailed: true}, b.of("a"), "the failure has ended the conflicts")
	assert.Zero(t, b.failed("b", false))
	assert.Zero(t, b.of("b"))
	require.NoError(t, b.checkInvariants())
	b.end("a")
	assert.Zero(t, b.n.Load(), "a state of zero costs no memory")
	require.NoError(t, b.checkInvariants())
}

func TestEventsCancelReconcileUpToLimit(t *testing.T) {
	f := newCancelable[string]()
	assert.Nil(t, f.of("a"))
	var ended error
	begin := func() { ended = nil; f.begin("a", func(cause error) { ended = cause }) }
	for range maxSuperseded {
		begin()
		require.Error(t, f.checkInvariants(false))
		f.of("a")(context.Canceled)
		require.ErrorIs(t, ended, context.Canceled)
		f.end("a", true)
		require.NoError(t, f.checkInvariants(false))
	}
	begin()
	assert.Nil(t, f.of("a"), "not canceled anymore")
	f.end("a", false)
	begin()
	f.of("a")(errors.New("x"))
	require.EqualError(t, ended, "x")
	f.end("a", false)
	assert.Nil(t, f.of("a"))
}
