package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	k8sgate "k8s.io/component-base/featuregate"

	"github.com/setpoint-go/setpoint/featuregate"
)

// BenchmarkFeatureEnabled asks for one of twenty features in turn.
func BenchmarkFeatureEnabled(b *testing.B) {
	const features = 20
	names := make([]k8sgate.Feature, features)
	for i := range names {
		names[i] = k8sgate.Feature("Feature" + string(rune('A'+i)))
	}
	b.Run("setpoint", func(b *testing.B) {
		var declared []featuregate.Feature[int]
		for _, name := range names {
			declared = append(declared, featuregate.Feature[int]{
				Name: string(name), History: []featuregate.Phase{{Since: "1.0", Stage: featuregate.Beta}},
			})
		}
		gates, err := featuregate.New(featuregate.Config[int]{Features: declared})
		require.NoError(b, err)
		on := 0
		for i := 0; b.Loop(); i++ {
			if gates.Enabled(i % features) {
				on++
			}
		}
		require.NotZero(b, on)
	})
	b.Run("component-base", func(b *testing.B) {
		gates := k8sgate.NewFeatureGate()
		specs := make(map[k8sgate.Feature]k8sgate.FeatureSpec)
		for _, name := range names {
			specs[name] = k8sgate.FeatureSpec{Default: true, PreRelease: k8sgate.Beta}
		}
		require.NoError(b, gates.Add(specs))
		on := 0
		for i := 0; b.Loop(); i++ {
			if gates.Enabled(names[i%features]) {
				on++
			}
		}
		require.NotZero(b, on)
	})
}
