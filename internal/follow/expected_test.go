package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/follow"
)

func TestGreatestVersionIsExpectedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x follow.Expected
		assert.False(t, x.After(0), "nothing is expected yet")
		x.Expect(5)
		time.Sleep(600 * time.Millisecond)
		x.Expect(3) // of a transaction that is slower
		assert.True(t, x.After(4))
		assert.False(t, x.After(5))
		time.Sleep(999 * time.Millisecond)
		assert.True(t, x.After(4))
		time.Sleep(time.Millisecond)
		assert.False(t, x.After(4))
	})
}
