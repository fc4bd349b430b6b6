package dbtest

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// Follow runs an informer until the test ends, and returns when it has synced. The test fails if that takes a minute, or if the informer
// ends with an error.
func Follow[K comparable, T any](t testing.TB, inf *informer.Informer[K, T]) {
	t.Helper()
	loop := looptest.StartIn(context.WithoutCancel(t.Context()), t, inf.Run) // it runs until the cleanup
	t.Cleanup(func() {
		if err := loop.Stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-inf.Synced():
	case <-time.After(time.Minute):
		t.Fatal("the informer has not synced")
	}
}
