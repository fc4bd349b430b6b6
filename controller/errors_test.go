package controller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Errors whose methods do not work with a nil pointer. A function that returns a variable of such a type returns one that is not
// nil.
type (
	nilError   struct{ text string }
	nilUnwrap  struct{ err error }
	nilAfter   struct{ d time.Duration }
	nilIs      struct{ err error }
	nilConvert struct{ err error }
)

func (e *nilError) Error() string             { return e.text }
func (*nilUnwrap) Error() string              { return "" }
func (e *nilUnwrap) Unwrap() error            { return e.err }
func (*nilAfter) Error() string               { return "" }
func (e *nilAfter) RetryAfter() time.Duration { return e.d }
func (*nilIs) Error() string                  { return "" }
func (e *nilIs) Is(target error) bool         { return e.err == target }
func (*nilConvert) Error() string             { return "" }
func (e *nilConvert) As(any) bool             { return e.err == nil }

// nilErrors are errors with a method that panics, by its name.
func nilErrors() map[string]error {
	return map[string]error{
		"Error": (*nilError)(nil), "Unwrap": (*nilUnwrap)(nil), "RetryAfter": (*nilAfter)(nil), "Is": (*nilIs)(nil),
		"As": (*nilConvert)(nil),
	}
}

func TestPanickingErrorMethodIsReconcilePanic(t *testing.T) {
	for method, broken := range nilErrors() {
		bubble(t, method, func(t *testing.T) {
			attempts := 0
			c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
				if attempts++; attempts == 1 {
					return controller.Result{RequeueAfter: time.Hour}, broken
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			c.Add("a")
			synctest.Wait()
			first := reports.Take()
			require.Len(t, first, 1)
			assert.Equal(t, controller.Panicked, first[0].Outcome)
			var p *wait.PanicError
			require.ErrorAs(t, first[0].Err, &p)
			assert.Contains(t, string(p.Stack), "."+method+"(", "the stack names the method")
			time.Sleep(time.Second)
			second := reports.Take()
			require.Len(t, second, 1)
			assert.Equal(t, controller.Succeeded, second[0].Outcome)
		})
	}
}

func TestPanickingErrorMethodIsMapperPanic(t *testing.T) {
	for method, broken := range nilErrors() {
		bubble(t, method, func(t *testing.T) {
			var attempts atomic.Int64
			s := newSource(object{Key: "a"})
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			logged := &looptest.Text{}
			c, reports := newController(t, controller.Config[string]{Logger: looptest.Logger(logged)}, noop, controller.Watches(inf, func(_ context.Context, o object) ([]string, error) {
				if attempts.Add(1) <= 2 {
					return nil, broken
				}
				return []string{o.Key}, nil
			}))
			looptest.Start(t, c.Run)
			time.Sleep(time.Second)
			assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
			if method != "Is" { // which is never called
				assert.Contains(t, logged.String(), "."+method+"(")
			}
		})
	}
}
