package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/wait"
)

func TestInterruptedRecognizesOnlyEndOfWait(t *testing.T) {
	for _, err := range []error{wait.ErrTimeout, context.Canceled, context.DeadlineExceeded} {
		assert.True(t, wait.Interrupted(err))
		assert.True(t, wait.Interrupted(fmt.Errorf("a: %w", errors.Join(io.EOF, err))), "as deep as errors.Is sees")
	}
	assert.False(t, wait.Interrupted(io.EOF))
	assert.False(t, wait.Interrupted(nil))
}
