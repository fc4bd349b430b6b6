package otel_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
)

func TestAWriteInOneProcessAndItsReconcileInAnotherAreOneTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.NewMemory(store.MemoryConfig{}))
		a, b := newProcess(t, setpointotel.Config{}), newProcess(t, setpointotel.Config{})
		b.running(t, b.sites(db), func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, nil
		}, controller.Config[string]{})
		synctest.Wait()
		require.Empty(t, b.spans())

		a.under("POST /sites", func(ctx context.Context) {
			_, err := a.sites(db).Create(ctx, store.Object[site]{Key: "berlin"})
			require.NoError(t, err)
		})
		synctest.Wait()
		written, reconciled := a.spans(), b.spans()
		require.Len(t, written, 1)
		require.Len(t, reconciled, 1)
		span := reconciled[0]
		assert.Equal(t, "reconcile sites", span.Name)
		assert.Equal(t, written[0].SpanContext.TraceID(), span.SpanContext.TraceID())
		assert.Equal(t, written[0].SpanContext.SpanID(), span.Parent.SpanID())
		assert.True(t, span.Parent.IsRemote())
		require.Len(t, span.Links, 1)
		assert.Equal(t, written[0].SpanContext.SpanID(), span.Links[0].SpanContext.SpanID())
	})
}
