package ended_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/internal/ended"
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
			if hidden := err != c.err; hidden != c.hidden {
				t.Fatalf("Err returns %v, which hides %v: %v, want %v", err, c.err, hidden, c.hidden)
			}
			if !c.hidden {
				return
			}
			if errors.Is(err, errAnswer) || !errors.Is(err, context.Canceled) || errors.Is(err, errOther) != errors.Is(c.cause, errOther) {
				t.Errorf("Err returns %v, want the end of the context, and of the causes all but the answer", err)
			}
			if got, want := err.Error(), "context canceled: "+c.cause.Error(); got != want {
				t.Errorf("Err returns %q, want %q", got, want)
			}
		})
	}
}

func TestErrLeavesErrorOfLiveContext(t *testing.T) {
	if err := ended.Err(t.Context(), errAnswer, []error{errAnswer}); err != errAnswer {
		t.Errorf("Err returns %v, want %v", err, errAnswer)
	}
}
