package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/setpoint-go/setpoint/wait"
)

func TestInterruptedRecognizesOnlyEndOfWait(t *testing.T) {
	for _, err := range []error{wait.ErrTimeout, context.Canceled, context.DeadlineExceeded} {
		if !wait.Interrupted(err) {
			t.Error("wait.Interrupted(err) is false")
		}
		if !wait.Interrupted(fmt.Errorf("a: %w", errors.Join(io.EOF, err))) {
			t.Error(`as deep as errors.Is sees: wait.Interrupted(fmt.Errorf("a: %w", errors.Join(io.EOF, err))) is false`)
		}
	}
	if wait.Interrupted(io.EOF) {
		t.Error("wait.Interrupted(io.EOF) is true")
	}
	if wait.Interrupted(nil) {
		t.Error("wait.Interrupted(nil) is true")
	}
}
