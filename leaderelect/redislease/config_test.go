package redislease_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/redislease"
)

func TestNewPanicsWithoutClient(t *testing.T) {
	if got, want := panicOf(func() { _, _ = redislease.New(nil, redislease.Config{}) }), "redislease: New: the client is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
