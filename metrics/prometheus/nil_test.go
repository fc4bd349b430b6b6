package prometheus_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// A nil part would panic in each scrape, in a goroutine of the registry, and so end the program.
func TestAddRejectsNil(t *testing.T) {
	reg := prometheus.NewRegistry()
	x, err := setpointprom.New(reg, nil)
	require.NoError(t, err)
	for _, p := range []any{
		nil, (*workqueue.Queue[string])(nil), (*controller.Controller[string])(nil), (*store.Informer[int])(nil), (store.Store[int])(nil),
		(*events.Recorder)(nil), (*leaderelect.Elector)(nil), (*shard.Slots)(nil), (*featuregate.Gates[feature])(nil),
	} {
		assert.Error(t, x.Add("nothing", p), "%T", p)
	}
	_, err = reg.Gather()
	require.NoError(t, err)
}
