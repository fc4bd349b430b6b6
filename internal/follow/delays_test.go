package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/follow"
)

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all follow.Delays
		assert.Zero(t, all.Since())
		began := time.Now()
		one, two := all.Join(), all.Join()
		one.Note(7, true)
		time.Sleep(time.Second)
		two.Note(7, true)
		one.Note(7, true)
		assert.Equal(t, began, all.Since(), "the first watch that saw it")

		time.Sleep(time.Second)
		one.Note(8, true)
		assert.Equal(t, began.Add(time.Second), all.Since(), "it is another one for the first watch, but not yet for the second")
		two.Note(8, true)
		assert.Equal(t, began.Add(2*time.Second), all.Since())

		one.Note(9, false)
		assert.Equal(t, began.Add(2*time.Second), all.Since())
		two.Leave()
		assert.Zero(t, all.Since(), "a watch that has ended sees nothing")
		one.Note(9, true)
		assert.Equal(t, time.Now(), all.Since(), "it was over in between")
	})
}
