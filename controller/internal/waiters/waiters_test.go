package waiters_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/waiters"
)

func always() bool { return true }

func TestWaiterIsAnsweredOnceByLaterReconcile(t *testing.T) {
	var ws waiters.Keys[string]
	assert.False(t, ws.Any())
	ready := false
	w := waiters.New(func() bool { return ready })
	ws.Begin("a") // before anybody waits
	ws.Enter("a", w)
	assert.True(t, ws.Any())
	ready = true
	ws.End("a", true, nil).Tell()
	assert.Empty(t, w.Done(), "it began before")

	ready = false
	ws.Begin("a")
	ready = true
	assert.False(t, ws.Served(w))
	ws.End("a", true, nil).Tell()
	assert.Empty(t, w.Done(), "it was not ready")

	ws.Begin("b")
	ws.End("b", true, nil).Tell()
	assert.Empty(t, w.Done(), "another key")

	ws.Begin("a")
	assert.True(t, ws.Served(w))
	ws.End("a", false, errors.New("it is added again")).Tell()
	assert.Empty(t, w.Done())
	assert.False(t, ws.Served(w))

	ws.Begin("a")
	ws.End("a", true, errors.New("given up")).Tell()
	assert.True(t, ws.Served(w))
	require.EqualError(t, <-w.Done(), "given up")
	ws.Begin("a")
	ws.End("a", true, nil).Tell()
	assert.Empty(t, w.Done(), "once")
	ws.Leave("a", w)
	assert.False(t, ws.Any())
	assert.Zero(t, ws.Len())
}

func TestEveryWaiterIsAnswered(t *testing.T) {
	var ws waiters.Keys[string]
	var all []*waiters.Waiter
	for range 3 {
		all = append(all, waiters.New(always))
		ws.Enter("a", all[len(all)-1])
	}
	ws.Leave("a", all[1])
	assert.Equal(t, 2, ws.Len())
	ws.Begin("a")
	told := ws.End("a", true, nil)
	assert.Empty(t, all[0].Done(), "not before they are notified")
	told.Tell()
	require.NoError(t, <-all[0].Done())
	require.NoError(t, <-all[2].Done())
	assert.Empty(t, all[1].Done(), "it has left")
}
