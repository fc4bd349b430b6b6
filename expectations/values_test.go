package expectations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/expectations"
)

func TestFunctionOfValuesMayCallEveryMethod(t *testing.T) {
	v := expectations.NewValues(expectations.Config[string]{})
	calls := 0
	v.ExpectValue("a", func() bool {
		if calls++; calls == 2 {
			v.ExpectValue("a", func() bool { return calls > 4 }) // calls this one again
			v.ValuesObserved()                                   // and again
		}
		return calls > 1
	})
	require.Equal(t, 1, calls)
	require.False(t, v.SatisfiedExpectations("a"), "it waits for the second function")
	require.Equal(t, 4, calls)
	require.True(t, v.SatisfiedExpectations("a"))
	require.NoError(t, v.CheckInvariants())
}

func TestPanicOfFunctionOfValuesReachesCaller(t *testing.T) {
	v := expectations.NewValues(expectations.Config[string]{})
	broken := false
	v.ExpectValue("a", func() bool {
		if broken {
			panic("no cache")
		}
		return false
	})
	broken = true
	require.PanicsWithValue(t, "no cache", func() { v.Expires("a") })
	require.PanicsWithValue(t, "no cache", func() { v.ValuesObserved() })
	broken = false
	require.False(t, v.SatisfiedExpectations("a"), "no lock is still held")
}
