package wait_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/wait"
)

func TestCallReturnsFunctionResult(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	require.NoError(t, wait.Call(ctx, func(ctx context.Context) error {
		assert.Equal(t, "mine", ctx.Value(key{}))
		return nil
	}))
	assert.Equal(t, io.EOF, wait.Call(ctx, func(context.Context) error { return io.EOF }))
}

func explode(v any) error { panic(v) }

func TestPanicErrorHasValueAndStack(t *testing.T) {
	err := wait.Call(t.Context(), func(context.Context) error { return explode("boom") })
	var p *wait.PanicError
	require.ErrorAs(t, err, &p)
	assert.Equal(t, "boom", p.Value)
	assert.Contains(t, string(p.Stack), "explode")
	assert.EqualError(t, err, "panic: boom")
	assert.NoError(t, errors.Unwrap(err))
}

func TestPanicErrorUnwrapsToPanickedError(t *testing.T) {
	err := wait.Call(t.Context(), func(context.Context) error { return explode(io.EOF) })
	assert.ErrorIs(t, err, io.EOF)

	err = wait.Call(t.Context(), func(context.Context) error {
		var none []error
		return none[len(none)]
	})
	var r runtime.Error
	assert.ErrorAs(t, err, &r)

	err = wait.Call(t.Context(), func(context.Context) error { return explode(nil) })
	var n *runtime.PanicNilError
	assert.ErrorAs(t, err, &n, "panic(nil) is a panic")
}
