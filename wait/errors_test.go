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

func TestDedupePrintsEachMessageOnceAndKeepsErrors(t *testing.T) {
	a, b := errors.New("disk full"), errors.New("no route")
	joined := errors.Join(a, b, errors.Join(a, io.EOF), a)
	err := wait.Dedupe(joined)
	assert.EqualError(t, err, "disk full (3 times)\nno route\nEOF")
	for _, target := range []error{a, b, io.EOF, joined} {
		assert.ErrorIs(t, err, target)
	}
	assert.EqualError(t, wait.Dedupe(a), "disk full")
	assert.True(t, wait.Dedupe(nil) == nil)
	assert.True(t, wait.Dedupe(errors.Join(nil, nil)) == nil)
}

func TestInterruptedRecognizesOnlyEndOfWait(t *testing.T) {
	for _, err := range []error{wait.ErrTimeout, context.Canceled, context.DeadlineExceeded} {
		assert.True(t, wait.Interrupted(err))
		assert.True(t, wait.Interrupted(fmt.Errorf("a: %w", errors.Join(io.EOF, err))), "as deep as errors.Is sees")
	}
	assert.False(t, wait.Interrupted(io.EOF))
	assert.False(t, wait.Interrupted(nil))
}
