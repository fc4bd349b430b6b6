package featuregate_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/featuregate"
)

var (
	threeVersions = []string{"1.1", "1.2", "1.3"}
	quiet         = slog.New(slog.DiscardHandler)
)

// phases returns each phase at one of the versions.
func phases(versions []string) (all []featuregate.Phase) {
	for _, v := range versions {
		for stage := featuregate.Alpha; stage <= featuregate.Removed; stage++ {
			all = append(all, featuregate.Phase{Since: v, Stage: stage})
		}
	}
	return all
}

// histories returns every sequence of at most so many phases, right or wrong. It leaves out those that begin with Deprecated:
// the documentation does not say what such a feature is by default.
func histories(versions []string, most int) (all [][]featuregate.Phase) {
	all = [][]featuregate.Phase{nil}
	for last, length := all, 1; length <= most; length++ {
		var longer [][]featuregate.Phase
		for _, h := range last {
			for _, p := range phases(versions) {
				if len(h) > 0 || p.Stage != featuregate.Deprecated {
					longer = append(longer, append(slices.Clone(h), p))
				}
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

func oneFeature(version string, history []featuregate.Phase) featuregate.Config[Feature] {
	return featuregate.Config[Feature]{
		Version: version, Logger: quiet,
		Features: []featuregate.Feature[Feature]{{Name: "Bee", Description: "Hums.", History: history}},
	}
}

// goodHistories returns the histories that only go up.
func goodHistories(t *testing.T) (good [][]featuregate.Phase) {
	for _, h := range histories(threeVersions, 3) {
		if newModel(threeVersions, oneFeature("", h)).valid() {
			good = append(good, h)
		}
	}
	require.Len(t, good, 15+30+10-3-3) // of one, two and three phases, less those that begin with Deprecated
	return good
}

func TestStagesMayOnlyAdvance(t *testing.T) {
	t.Parallel()
	for _, h := range histories(threeVersions, 3) {
		_ = newTrial(t, threeVersions, oneFeature("", h))
	}
}

func TestOneFeatureMatchesModel(t *testing.T) {
	t.Parallel()
	singles := []pair{{"Bee", "true"}, {"Bee", "false"}, {"AllAlpha", "true"}, {"AllAlpha", "false"},
		{"AllBeta", "true"}, {"AllBeta", "false"}, {"Wasp", "true"}, {"Bee", "maybe"}}
	for _, history := range goodHistories(t) {
		for _, program := range append([]string{""}, threeVersions...) {
			start := newTrial(t, threeVersions, oneFeature(program, history))
			for _, emulated := range append([]string{"1.4"}, threeVersions...) {
				emulate := emulateOf(emulated)
				for _, a := range singles {
					start.again().do(emulate, setOf(a), lockOf(), setOf(a), emulate)
					start.again().do(setOf(a), emulate)
				}
				if emulated > program {
					continue // Emulate has failed, or the program has the version of its last phase
				}
				for _, a := range singles {
					for _, b := range singles {
						start.again().repeat(emulate).do(setOf(a, b))
						start.again().repeat(emulate, setOf(a)).do(setOf(b))
					}
				}
			}
		}
	}
}

func TestTwoFeaturesMatchModel(t *testing.T) {
	t.Parallel()
	good := goodHistories(t)
	singles := []pair{{"Bee", "true"}, {"Bee", "false"}, {"Aa", "true"}, {"Aa", "false"},
		{"AllAlpha", "true"}, {"AllAlpha", "false"}, {"AllBeta", "true"}, {"AllBeta", "false"}}
	n := 0
	for _, one := range good {
		for _, two := range good {
			for _, requires := range [][]Feature{nil, {1}} {
				cfg := oneFeature("", one)
				cfg.Features[0].Requires = requires
				cfg.Features = append(cfg.Features, featuregate.Feature[Feature]{Name: "Aa", History: two})
				if newTrial(t, threeVersions, cfg) == nil {
					continue
				}
				for _, cfg.Version = range threeVersions {
					start := &trial{T: t, cfg: cfg, model: newModel(threeVersions, cfg)}
					for _, emulated := range threeVersions {
						if emulated > cfg.Version {
							continue
						}
						for _, a := range singles {
							for _, b := range singles {
								if n++; n%step != 0 {
									continue
								}
								start.again().do(emulateOf(emulated), setOf(a, b), lockOf())
								start.again().do(setOf(a), setOf(b), emulateOf(emulated), lockOf())
							}
						}
					}
				}
			}
		}
	}
}

// step says how many combinations of two features stand for one that is tried. All of them take 40 s.
const step = 997

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRandomCallsMatchModel(t *testing.T) {
	t.Parallel()
	const sequences, length = 700, 12
	versions := []string{"1.0", "1.9", "1.10", "1.10.1", "2.0"}
	r := rand.New(rand.NewPCG(1, 2))
	for made := 0; made < sequences; {
		cfg := randomConfig(r, versions)
		tr := newTrial(t, versions, cfg)
		if tr == nil {
			continue
		}
		made++
		tests := make(map[string]*modelTest)
		for range length {
			tr.do(randomCall(r, tr.model, tests))
		}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(tests))) { // subtests end first
			tr.do(endOf(tests[name]))
		}
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomConfig(r *rand.Rand, versions []string) featuregate.Config[Feature] {
	cfg := featuregate.Config[Feature]{Version: pick(r, append([]string{"", "2.0", "2.0"}, versions...)...), Logger: quiet}
	for _, name := range []string{"Cat", "Aa", "Bee"} {
		f := featuregate.Feature[Feature]{Name: name, Description: pick(r, "", "Says something.")}
		stage := featuregate.Stage(0)
		for _, v := range versions {
			if r.IntN(2) == 0 || stage >= featuregate.Removed {
				continue
			}
			stage += featuregate.Stage(1 + r.IntN(2))
			if stage = min(stage, featuregate.Removed); len(f.History) == 0 {
				stage = pick(r, featuregate.Alpha, featuregate.Alpha, featuregate.Beta, featuregate.GA)
			}
			f.History = append(f.History, featuregate.Phase{Since: v, Stage: stage})
		}
		cfg.Features = append(cfg.Features, f)
	}
	for i := range cfg.Features {
		for other := range Feature(len(cfg.Features)) {
			if other != Feature(i) && r.IntN(4) == 0 {
				cfg.Features[i].Requires = append(cfg.Features[i].Requires, other)
			}
		}
	}
	return cfg
}

// randomCall returns a call that the documentation decides.
func randomCall(r *rand.Rand, m *model, tests map[string]*modelTest) call {
	names := []string{"Aa", "Bee", "Cat", "Aa", "Bee", "Cat", "AllAlpha", "AllBeta"}
	for {
		switch n := r.IntN(16); {
		case n < 6:
			var pairs []pair
			for range 1 + r.IntN(3) {
				p := pair{pick(r, names...), pick(r, "true", "false", "1", "0", "T", "FALSE")}
				switch r.IntN(30) {
				case 0:
					p.name = "Dog"
				case 1:
					p.value = pick(r, "yes", "", "on", "2")
				case 2:
					p.name, p.value = " "+p.name+" ", " "+p.value+" "
				}
				pairs = append(pairs, p)
			}
			c := setOf(pairs...)
			for i, p := range pairs { // the call has the spaces
				pairs[i] = pair{strings.TrimSpace(p.name), strings.TrimSpace(p.value)}
			}
			return c
		case n < 8:
			settings := make(map[string]bool)
			for range 1 + r.IntN(2) {
				settings[pick(r, append(names, "Dog")...)] = r.IntN(2) == 0
			}
			return setMapOf(settings)
		case n < 10:
			return emulateOf(pick(r, append([]string{"3", "one"}, m.versions...)...))
		case n == 10:
			return lockOf()
		case n > 10 && n < 14:
			name := pick(r, "TestA", "TestA", "TestA/x", "TestA/x/y", "TestAB")
			if tests[name] == nil {
				tests[name] = &modelTest{name: name}
			}
			return overrideOf(tests[name], Feature(r.IntN(3)), r.IntN(2) == 0)
		case n >= 14 && len(tests) > 0:
			running := slices.Sorted(maps.Keys(tests))
			name := pick(r, running...)
			for _, other := range running {
				if within(other, name) { // a test ends after its subtests
					name = other
				}
			}
			ends := tests[name]
			delete(tests, name)
			return endOf(ends)
		}
	}
}

// An invalid setting never shows, even for a moment. Every reader sees a complete setting: All is ordered, and Set
// accepts what String returns.
func TestConcurrentReadersSeeValidSettings(t *testing.T) {
	t.Parallel()
	const rounds = 100
	history := []featuregate.Phase{{Since: "1.1", Stage: featuregate.Alpha}}
	cfg := featuregate.Config[Feature]{Logger: quiet, Features: []featuregate.Feature[Feature]{
		{Name: "Cat", History: history}, {Name: "Aa", History: history}, {Name: "Bee", History: history},
	}}
	g := must(featuregate.New(cfg))
	const cat, aa, bee = Feature(0), Feature(1), Feature(2) // cat stays off; aa is set, and bee overridden
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	write := func(f func(i int)) {
		writers.Go(func() {
			for i := range rounds {
				f(i)
			}
		})
	}
	write(func(i int) {
		for _, s := range []string{"Cat=true,Dog=true", "Cat=true,Aa=maybe", "Cat=true,Cat=false", "Cat=true,AllBeta"} {
			if g.Set(s) == nil {
				t.Errorf("Set(%q) succeeds", s)
			}
		}
	})
	write(func(i int) {
		if g.Set(fmt.Sprintf("Aa=%t,AllBeta=%t", i%2 == 0, i%3 == 0)) != nil || g.SetMap(map[string]bool{"Aa": i%2 == 0}) != nil {
			t.Error("Set fails")
		}
		if want := i%2 == 0; g.Enabled(aa) != want {
			t.Error("a setting has no effect, although no other test sets the feature")
		}
	})
	write(func(i int) {
		test := &modelTest{name: "TestBee"}
		g.Override(test, bee, true)
		if !g.Enabled(bee) {
			t.Error("an override has no effect")
		}
		test.end()
		if g.Enabled(bee) {
			t.Error("an override outlives its test")
		}
	})
	read := func(f func()) {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	read(func() {
		if g.Enabled(cat) {
			t.Error("Enabled sees an invalid setting")
		}
		_, _ = g.Enabled(aa), g.Enabled(bee)
	})
	read(func() {
		var names []string
		for s := range g.All() {
			names = append(names, s.Name)
			if s.Name == "Cat" && (s.Enabled || s.Set) {
				t.Error("All sees an invalid setting")
			}
		}
		if !slices.Equal(names, []string{"Aa", "Bee", "Cat"}) {
			t.Errorf("All yields %v", names)
		}
	})
	fresh := must(featuregate.New(cfg))
	read(func() {
		if s := g.String(); strings.Contains(s, "Cat") || fresh.Set(s) != nil {
			t.Errorf("String returns %q", s)
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
}
