package pace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/pace"
)

func TestDerivedContextKeepsFunction(t *testing.T) {
	assert.Nil(t, pace.Of(t.Context()))
	var waited []context.Context
	ctx := pace.With(t.Context(), func(reconcile context.Context) { waited = append(waited, reconcile) })
	below, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	pace.Of(below)(below)
	assert.Equal(t, []context.Context{below}, waited)
}
