package looptest

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// Bubble runs a subtest in a bubble of its own.
func Bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// Lanes calls f for each number below n, each in a bubble of its own, and several concurrently. It stops when one fails.
func Lanes(t *testing.T, n int, f func(t *testing.T, i int)) {
	t.Helper()
	const count = 4
	for lane := range count {
		t.Run(fmt.Sprintf("lane %d", lane), func(t *testing.T) {
			t.Parallel()
			for i := lane; i < n && !t.Failed(); i += count {
				synctest.Test(t, func(t *testing.T) {
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("number %d", i)
						}
					})
					f(t, i)
				})
			}
		})
	}
}
