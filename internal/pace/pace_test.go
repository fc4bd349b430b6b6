package pace_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/setpoint-go/setpoint/internal/pace"
)

func TestDerivedContextKeepsFunction(t *testing.T) {
	if pace.Of(t.Context()) != nil {
		t.Error("pace.Of(t.Context()) is set, want nil")
	}
	var waited []context.Context
	ctx := pace.With(t.Context(), func(reconcile context.Context) { waited = append(waited, reconcile) })
	below, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	pace.Of(below)(below)
	if want := ([]context.Context{below}); !reflect.DeepEqual(waited, want) {
		t.Errorf("waited = %v, want %v", waited, want)
	}
}
