package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// meanwhile is a context in which something happens when a write asks whether it has ended: after the store has looked for
// the version to replace, and before it decides.
type meanwhile struct {
	context.Context
	happens func()
}

func (m *meanwhile) Err() error {
	if f := m.happens; f != nil {
		m.happens = nil
		f()
	}
	return m.Context.Err()
}

// A writer may name a future version that becomes current while its write is in flight. Even then, the write must not
// change more than its part of the object.
func TestUpdateOfFutureVersionWritesOnlyItsPart(t *testing.T) {
	services := open[Service](t, store.NewMemory(store.MemoryConfig{}), "service")
	for _, c := range []struct {
		name  string
		write func(context.Context, store.Object[Service], ...store.Precondition) (store.Object[Service], error)
		want  Service
		label string
	}{
		{"Update", services.Update, Service{Replicas: 9, Status: ServiceStatus{Ready: 1}}, "theirs"},
		{"UpdateStatus", services.UpdateStatus, Service{Replicas: 3, Status: ServiceStatus{Ready: 9}}, "mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := services.Create(t.Context(), store.Object[Service]{
				Key: c.name, Value: Service{Replicas: 3, Status: ServiceStatus{Ready: 1}},
			})
			require.NoError(t, err)
			guess := o
			guess.Version++
			guess.Value, guess.Labels = Service{Replicas: 9, Status: ServiceStatus{Ready: 9}}, map[string]string{"of": "theirs"}
			after, err := c.write(&meanwhile{t.Context(), func() {
				o.Labels = map[string]string{"of": "mine"}
				_, err := services.Update(t.Context(), o)
				require.NoError(t, err)
			}}, guess)
			require.NoError(t, err)
			assert.Equal(t, c.want, after.Value)
			assert.Equal(t, c.label, after.Labels["of"])
		})
	}
}
