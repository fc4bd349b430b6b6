package controller_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsTakenForLaterIsThereInTheEnd(t *testing.T) {
	for range 20 {
		var l controller.Later[int]
		l.Begin()
		var adding sync.WaitGroup
		taken := make([]int, 2)
		for i := range taken {
			adding.Go(func() {
				for l.Add(2*taken[i] + i) {
					taken[i]++
				}
			})
		}
		for l.Len() < 4 {
			runtime.Gosched()
		}
		keys := l.End()
		adding.Wait()
		require.Equal(t, taken[0]+taken[1], len(keys)) // not Len: there may be many
	}
}

func TestAKeyForLaterIsThereOnceAsTheOptionsSayThatCountMost(t *testing.T) {
	var l controller.Later[string]
	assert.False(t, l.AddWith("a", controller.AddOptions{}), "nothing drains")
	l.Begin()
	for _, opts := range []controller.AddOptions{{Priority: 1, Reason: "x"}, {Priority: 3}, {Priority: 2, Reason: "y"}, {Priority: -1}} {
		assert.True(t, l.AddWith("a", opts))
		l.AddWith("b", controller.AddOptions{})
	}
	keys := l.End()
	assert.Equal(t, []string{"a", "b"}, keys)
	assert.False(t, l.AddWith("a", controller.AddOptions{}))
	assert.Equal(t, controller.AddOptions{Priority: 3, Reason: "y"}, l.Opts["a"])
}
