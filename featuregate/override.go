package featuregate

import (
	"fmt"
	"slices"
	"strings"
)

// TB is the part of testing.TB that [Gates.Override] needs.
type TB interface {
	Helper()
	Name() string
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// override is the value of a feature for the duration of a test.
type override[F ~int] struct {
	feature F
	test    string
	enabled bool
}

// Override turns a feature on or off until the test ends, even after Lock. A subtest may override a feature again. The test fails at
// once in these cases:
//   - Another test overrides the same feature. Tests that run in parallel need Gates of their own.
//   - The feature is newer than the version, or removed, or it is GA and would be off. To test the program without a feature that is GA, call
//     [Gates.Emulate] first, with an older version (kubernetes#127477).
//   - A feature would be on without another that it requires.
//
// Override panics if the feature was not declared.
func (g *Gates[F]) Override(t TB, feature F, enabled bool) {
	t.Helper()
	if uint(feature) >= uint(len(g.on)) {
		undeclared(int(feature))
	}
	if err := g.override(t.Name(), feature, enabled); err != nil {
		t.Fatalf("featuregate: override: %v", err)
		return
	}
	t.Cleanup(func() { g.restore(t.Name(), feature) })
}

func (g *Gates[F]) override(test string, feature F, enabled bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := g.features[feature].Name
	for _, o := range g.overrides {
		if o.feature == feature && o.test != test && !strings.HasPrefix(test, o.test+"/") {
			return fmt.Errorf("%s overrides %s now: tests that run in parallel need Gates of their own", o.test, name)
		}
	}
	if err := g.allowed(g.version, map[string]bool{name: enabled}); err != nil {
		return err
	}
	on := g.now()
	on[feature] = enabled
	if err := g.missing(g.version, on); err != nil {
		return err
	}
	g.overrides = append(g.overrides, override[F]{feature, test, enabled})
	g.update()
	return nil
}

// restore ends the latest override of a feature by a test.
func (g *Gates[F]) restore(test string, feature F) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, o := range slices.Backward(g.overrides) {
		if o.feature == feature && o.test == test {
			g.overrides = slices.Delete(g.overrides, i, i+1)
			g.update()
			return
		}
	}
}

// now returns which features are on. The caller holds mu.
func (g *Gates[F]) now() []bool {
	on := make([]bool, len(g.on))
	for i := range g.on {
		on[i] = g.on[i].Load()
	}
	return on
}

// overridden returns the overrides that are in force, as settings. The caller holds mu.
func (g *Gates[F]) overridden() map[string]bool {
	values := make(map[string]bool)
	for _, o := range g.overrides {
		values[g.features[o.feature].Name] = o.enabled
	}
	return values
}
