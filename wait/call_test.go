package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/wait"
)

func TestCallReturnsFunctionResult(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	if err := wait.Call(ctx, func(ctx context.Context) error {
		if got := ctx.Value(key{}); got != any("mine") {
			t.Errorf("ctx.Value(key{}) = %v, want %v", got, "mine")
		}
		return nil
	}); err != nil {
		t.Fatalf("wait.Call: %v", err)
	}
	if got := wait.Call(ctx, func(context.Context) error { return io.EOF }); got != io.EOF {
		t.Errorf("wait.Call = %v, want %v", got, io.EOF)
	}
}

func explode(v any) error { panic(v) }

func TestPanicErrorHasValueAndStack(t *testing.T) {
	err := wait.Call(t.Context(), func(context.Context) error { return explode("boom") })
	var p *wait.PanicError
	if !errors.As(err, &p) {
		t.Fatalf("err = %v, want one of type *wait.PanicError", err)
	}
	if p.Value != any("boom") {
		t.Errorf("p.Value = %v, want %v", p.Value, "boom")
	}
	if got := string(p.Stack); !strings.Contains(got, "explode") {
		t.Errorf("string(p.Stack) = %q, want it to contain %q", got, "explode")
	}
	if got, want := fmt.Sprint(err), "wait: recover from panic: boom"; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
	if err := errors.Unwrap(err); err != nil {
		t.Error(err)
	}
}

func TestPanicErrorUnwrapsToPanickedError(t *testing.T) {
	err := wait.Call(t.Context(), func(context.Context) error { return explode(io.EOF) })
	if !errors.Is(err, io.EOF) {
		t.Errorf("err = %v, want %v", err, io.EOF)
	}

	err = wait.Call(t.Context(), func(context.Context) error {
		var none []error
		return none[len(none)]
	})
	var r runtime.Error
	if !errors.As(err, &r) {
		t.Errorf("err = %v, want one of type runtime.Error", err)
	}

	err = wait.Call(t.Context(), func(context.Context) error { return explode(nil) })
	var n *runtime.PanicNilError
	if !errors.As(err, &n) {
		t.Errorf("panic(nil) is a panic: err = %v, want one of type *runtime.PanicNilError", err)
	}
}
