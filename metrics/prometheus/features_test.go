package prometheus_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/featuregate"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
)

// feature is a feature of a program.
type feature int

const (
	experiment feature = iota
	preview
	stable
	leaving
)

func newGates() *featuregate.Gates[feature] {
	return must(featuregate.New(featuregate.Config[feature]{Version: "1.4", Logger: quiet, Features: []featuregate.Feature[feature]{
		experiment: {Name: "Experiment", History: []featuregate.Phase{{Since: "1.4", Stage: featuregate.Alpha}}},
		preview:    {Name: "Preview", History: []featuregate.Phase{{Since: "1.3", Stage: featuregate.Beta}}},
		stable:     {Name: "Stable", History: []featuregate.Phase{{Since: "1.2", Stage: featuregate.GA}}},
		leaving: {Name: "Leaving", History: []featuregate.Phase{
			{Since: "1.1", Stage: featuregate.Beta}, {Since: "1.4", Stage: featuregate.Deprecated},
		}},
		4: {Name: "Gone", History: []featuregate.Phase{{Since: "1.0", Stage: featuregate.Alpha}, {Since: "1.4", Stage: featuregate.Removed}}},
		5: {Name: "Future", History: []featuregate.Phase{{Since: "1.5", Stage: featuregate.Alpha}}},
	}}))
}

// TestFeatureStagesMatchKubernetes has the values of k8s.io/component-base v0.37.2 (featuregate/feature_gate.go).
func TestFeatureStagesMatchKubernetes(t *testing.T) {
	reg := prometheus.NewRegistry()
	x := must(setpointprom.New(reg, nil))
	gates := newGates()
	require.NoError(t, x.Add("", gates))
	require.ErrorIs(t, x.Add("again", gates), setpointprom.ErrExists)
	assert.Equal(t, []string{
		`setpoint_feature_enabled{name="Experiment",stage="ALPHA"} 0`,
		`setpoint_feature_enabled{name="Leaving",stage="DEPRECATED"} 1`,
		`setpoint_feature_enabled{name="Preview",stage="BETA"} 1`,
		`setpoint_feature_enabled{name="Stable"} 1`, // lines leaves out empty labels
	}, lines(t, reg))

	require.NoError(t, gates.Set("Experiment=true,Preview=false,Leaving=false"))
	assert.Equal(t, []string{
		`setpoint_feature_enabled{name="Experiment",stage="ALPHA"} 1`,
		`setpoint_feature_enabled{name="Leaving",stage="DEPRECATED"} 0`,
		`setpoint_feature_enabled{name="Preview",stage="BETA"} 0`,
		`setpoint_feature_enabled{name="Stable"} 1`, // lines leaves out empty labels
	}, lines(t, reg))
}

func TestFeatureIsEnabledIfAnyGateEnablesIt(t *testing.T) {
	reg := prometheus.NewRegistry()
	x := must(setpointprom.New(reg, nil))
	for i := range 2 {
		gates := newGates()
		require.NoError(t, gates.Set(fmt.Sprintf("Experiment=%t", i == 0)))
		require.NoError(t, x.Add("", gates))
	}
	assert.Contains(t, lines(t, reg), `setpoint_feature_enabled{name="Experiment",stage="ALPHA"} 1`)
}
