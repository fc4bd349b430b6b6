package storelease_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/storelease"
)

func TestNewPanicsWithoutStore(t *testing.T) {
	if got, want := panicOf(func() {
		_, _ = storelease.New(nil, storelease.Config{})
	}), "storelease: New: the store of records is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
