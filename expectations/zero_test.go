package expectations_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/expectations"
)

func TestExpectingNothingRestartsTTL(t *testing.T) {
	for what, expect := range map[string]func(c *expectations.Counted[string]){
		"creations": func(c *expectations.Counted[string]) { c.ExpectCreations("a", 0) },
		"deletions": func(c *expectations.Counted[string]) { c.ExpectDeletions("a", 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			expired := 0
			c := must(expectations.NewCounted(expectations.Config[string]{TTL: time.Minute, OnExpired: func(string) { expired++ }}))
			expect(c)
			require.True(t, c.SatisfiedExpectations("a"), "%s: nothing is expected", what)

			c.ExpectCreations("a", 1)
			time.Sleep(time.Minute - 1)
			expect(c)
			time.Sleep(time.Minute - 1)
			require.False(t, c.SatisfiedExpectations("a"), what)
			c.RaiseExpectations("a", 0, 0) // prolongs nothing
			time.Sleep(time.Nanosecond)
			require.True(t, c.SatisfiedExpectations("a"), what)
			require.Equal(t, 1, expired, what)
		})
	}
}
