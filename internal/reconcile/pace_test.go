package reconcile_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

func TestDerivedContextKeepsPace(t *testing.T) {
	if reconcile.PaceOf(t.Context()) != nil {
		t.Error("reconcile.PaceOf(t.Context()) is set, want nil")
	}
	var waited []context.Context
	ctx := reconcile.WithPace(t.Context(), func(reconcile context.Context) { waited = append(waited, reconcile) })
	below, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	reconcile.PaceOf(below)(below)
	if want := ([]context.Context{below}); !reflect.DeepEqual(waited, want) {
		t.Errorf("waited = %v, want %v", waited, want)
	}
}
