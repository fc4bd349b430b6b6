package memlease_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func TestSessionsConform(t *testing.T) {
	ctx := t.Context()
	s := memlease.New()
	require.NoError(t, s.AwaitEnd(ctx, "a"), "no process holds it")

	hold := func(ctx context.Context, session string) (held chan struct{}, end chan error) {
		held, end = make(chan struct{}), make(chan error, 1)
		go func() { end <- s.Hold(ctx, session, func() { close(held) }) }() // the test waits for its end
		<-held
		return held, end
	}
	_, endA := hold(ctx, "a")
	short, cut := context.WithCancel(context.Background())
	_, endB := hold(short, "b")
	require.ErrorContains(t, s.Hold(ctx, "a", func() { t.Error("it is held twice") }), "another call holds it")

	over, stop := context.WithCancel(ctx)
	stop()
	require.ErrorIs(t, s.AwaitEnd(over, "a"), context.Canceled)

	gone := make(chan error, 1)
	go func() { gone <- s.AwaitEnd(ctx, "b") }() // the test waits for its end
	cut()
	require.ErrorIs(t, <-endB, context.Canceled)
	require.NoError(t, <-gone)

	go func() { gone <- s.AwaitEnd(ctx, "a") }() // the same
	select {
	case <-gone:
		t.Fatal("another call holds it")
	default:
	}
	s.DropSessions()
	require.ErrorContains(t, <-endA, "it was dropped")
	require.NoError(t, <-gone)
}

func TestDroppedSessionHeldByAnotherStaysHeld(t *testing.T) {
	for range 20 { // which end the first one sees, of two, is random
		s := memlease.New()
		first, leave := context.WithCancel(t.Context())
		second, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		require.Error(t, s.Hold(first, "a", func() {
			s.DropSessions()
			held := make(chan struct{})
			go func() { end <- s.Hold(second, "a", func() { close(held) }) }() // the test waits for its end
			<-held
			leave()
		}))
		require.ErrorContains(t, s.Hold(first, "a", func() { t.Error("it is held twice") }), "another call holds it")
		stop()
		require.ErrorIs(t, <-end, context.Canceled)
	}
}
