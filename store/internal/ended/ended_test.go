package ended_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/internal/ended"
)

var (
	errAnswer = errors.New("answer")
	errOther  = errors.New("other")
)

func TestErrHidesAnswersInCause(t *testing.T) {
	for _, c := range []struct {
		name       string
		cause, err error
		hidden     bool
	}{
		{"no answer", errOther, errOther, false},
		{"an answer to the call", errOther, errAnswer, false},
		{"an answer to the call, after another one", fmt.Errorf("part: %w", errAnswer), errAnswer, false},
		{"the answer itself", errAnswer, errAnswer, true},
		{"wrapped", errors.Join(errOther, errAnswer), nil, true},
		{"of the context alone", nil, context.Canceled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			end(c.cause)
			if c.err == nil {
				c.err = fmt.Errorf("call: %w", context.Cause(ctx))
			}
			err := ended.Err(ctx, c.err, []error{errAnswer})
			require.Equal(t, c.hidden, err != c.err)
			if c.hidden {
				assert.NotErrorIs(t, err, errAnswer)
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, errors.Is(c.cause, errOther), errors.Is(err, errOther))
				assert.EqualError(t, err, "context canceled: "+c.cause.Error())
			}
		})
	}
}

func TestErrLeavesErrorOfLiveContext(t *testing.T) {
	assert.Equal(t, errAnswer, ended.Err(t.Context(), errAnswer, []error{errAnswer}))
}
