package featuregate_test

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/featuregate"
)

// one returns the gates of a program with one feature.
func one(t *testing.T, version string, phases ...featuregate.Phase) (*featuregate.Gates[Feature], error) {
	t.Helper()
	return featuregate.New(featuregate.Config[Feature]{
		Version:  version,
		Features: []featuregate.Feature[Feature]{{Name: "X", History: phases}},
		Logger:   slog.New(slog.DiscardHandler),
	})
}

func TestStageDeterminesDefaultAndMutability(t *testing.T) {
	const a, b, ga, d, r = featuregate.Alpha, featuregate.Beta, featuregate.GA, featuregate.Deprecated, featuregate.Removed
	for _, c := range []struct {
		stages []featuregate.Stage // since 1.1, 1.2, ...; the program is of the last of these versions
		on     bool
		off    string // the error of turning it off
		turnOn string // the error of turning it on
		atLock bool   // the error of turning it off is that of Lock
	}{
		{stages: []featuregate.Stage{a}},
		{stages: []featuregate.Stage{a, b}, on: true},
		{stages: []featuregate.Stage{b}, on: true},
		{stages: []featuregate.Stage{ga}, on: true, off: "X is always on since version 1.1"},
		{stages: []featuregate.Stage{a, ga}, on: true, atLock: true,
			off: "X is always on since version 1.2: emulate an older version to turn it off"},
		{stages: []featuregate.Stage{a, d}},
		{stages: []featuregate.Stage{b, d}, on: true},
		{stages: []featuregate.Stage{ga, d}, on: true},
		{stages: []featuregate.Stage{d}, on: true},
		{stages: []featuregate.Stage{a, r}, off: "X was removed in version 1.2", turnOn: "X was removed in version 1.2"},
		{stages: []featuregate.Stage{b, r}, off: "X was removed in version 1.2", turnOn: "X was removed in version 1.2"},
		{stages: []featuregate.Stage{b, ga, r}, on: true, off: "X was removed in version 1.3", turnOn: "X was removed in version 1.3"},
		{stages: []featuregate.Stage{ga, d, r}, off: "X was removed in version 1.3", turnOn: "X was removed in version 1.3"},
	} {
		t.Run(fmt.Sprint(c.stages), func(t *testing.T) {
			var phases []featuregate.Phase
			for i, s := range c.stages {
				phases = append(phases, featuregate.Phase{Since: fmt.Sprintf("1.%d", i+1), Stage: s})
			}
			for on, want := range map[bool]string{false: c.off, true: c.turnOn} {
				gates, err := one(t, "", phases...)
				require.NoError(t, err)
				assert.Equal(t, c.on, gates.Enabled(0))
				err = gates.SetMap(map[string]bool{"X": on})
				if c.atLock && !on {
					require.NoError(t, err, "the version may still change")
					assert.Equal(t, c.on, gates.Enabled(0), "and it has no effect in this version")
					err = gates.Lock()
				}
				if want != "" {
					assert.EqualError(t, err, "featuregate: "+want)
					assert.Equal(t, c.on, gates.Enabled(0))
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, on, gates.Enabled(0))
			}
		})
	}
}

func TestInvalidSpecErrorsNameTheFeature(t *testing.T) {
	since := func(v string, s featuregate.Stage) featuregate.Phase { return featuregate.Phase{Since: v, Stage: s} }
	alpha := []featuregate.Phase{since("1.0", featuregate.Alpha)}
	type f = featuregate.Feature[Feature]
	for want, cfg := range map[string]featuregate.Config[Feature]{
		"Config.Features[0]: Feature.Name is empty":                                                    {Features: []f{{History: alpha}}},
		`Config.Features[0]: Feature.Name is "A=b", must have letters and digits only, a letter first`: {Features: []f{{Name: "A=b", History: alpha}}},
		`Config.Features[0]: Feature.Name is "AllBeta", which is taken`:                                {Features: []f{{Name: "AllBeta", History: alpha}}},
		`Config.Features[0]: Feature.Name is "AllAlpha", which is taken`:                               {Features: []f{{Name: "AllAlpha", History: alpha}}},
		`Config.Features[1]: Feature.Name is "A", which is taken`:                                      {Features: []f{{Name: "A", History: alpha}, {Name: "A", History: alpha}}},
		"Config.Features[0]: Feature.History of A is empty":                                            {Features: []f{{Name: "A"}}},
		`Config.Features[0]: Phase.Since of A: "next" is not a version such as 1.4`: {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("next", featuregate.Beta)}}}},
		"Config.Features[0]: Phase.Stage of A is Stage(0), must be a stage": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.0", 0)}}}},
		"Config.Features[0]: Phase.Stage of A is Stage(6), must be a stage": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.0", featuregate.Removed+1)}}}},
		"Config.Features[0]: Feature.History of A: version 1.9 does not come after version 1.10": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.10", featuregate.Alpha), since("1.9", featuregate.Beta)}}}},
		"Config.Features[0]: Feature.History of A: stage Beta cannot follow stage GA": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.GA), since("1.2", featuregate.Beta)}}}},
		"Config.Features[0]: Feature.Requires of A: no feature 5 is declared":  {Features: []f{{Name: "A", History: alpha, Requires: []Feature{5}}}},
		"Config.Features[0]: Feature.Requires of A: no feature -1 is declared": {Features: []f{{Name: "A", History: alpha, Requires: []Feature{-1}}}},
		"Config.Features[0]: Feature.Requires of A: it requires itself":        {Features: []f{{Name: "A", History: alpha, Requires: []Feature{0}}}},
		"Feature.Requires: the defaults in version 1.2 do not fit: A requires B, which is off": {Features: []f{
			{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.Alpha), since("1.2", featuregate.Beta)}, Requires: []Feature{1}},
			{Name: "B", History: []featuregate.Phase{since("1.1", featuregate.Alpha), since("1.3", featuregate.Beta)}}}},
		"Feature.Requires: the defaults in version 1.1 do not fit: A requires B, which is newer than version 1.1": {Features: []f{
			{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.Beta)}, Requires: []Feature{1}},
			{Name: "B", History: []featuregate.Phase{since("1.2", featuregate.Beta)}}}},
		`Config.Version: "1.2.3.4" is not a version such as 1.4`: {Version: "1.2.3.4", Features: []f{{Name: "A", History: alpha}}},
	} {
		_, err := featuregate.New(cfg)
		assert.EqualError(t, err, "featuregate: new gates: "+want)
	}
}

func TestNameHasLettersAndDigits(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "a0": true, "Z9": true, "azAZ09": true,
		"0": false, "9a": false, "a`": false, "a{": false, "A@": false, "A[": false, "a/": false, "a:": false, "é": false,
	} {
		_, err := featuregate.New(featuregate.Config[Feature]{Features: []featuregate.Feature[Feature]{
			{Name: name, History: []featuregate.Phase{{Since: "1.0", Stage: featuregate.Alpha}}},
		}})
		assert.Equal(t, valid, err == nil, "%s: %v", name, err)
	}
}

func TestUnknownFeatureSuggestsNearestName(t *testing.T) {
	history := []featuregate.Phase{{Since: "1.0", Stage: featuregate.Alpha}}
	gates, err := featuregate.New(featuregate.Config[Feature]{Features: []featuregate.Feature[Feature]{
		{Name: "Shards", History: history}, {Name: "Pool2", History: history}, {Name: "Pool1", History: history}, {Name: "CrashLoop", History: history},
	}})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"shards": "Shards", "Shard": "Shards", "hards": "Shards", "Shardss": "Shards", "NoShards": "Shards", "Shirts": "Shards", "Skirts": "Shards",
		"Pool3":    "Pool1", // the first of two that are equally near
		"CrashLop": "CrashLoop", "Crash": "", "Loop": "", "Zebra": "", "P": "",
	} {
		text := fmt.Sprintf("featuregate: unknown feature %q", name)
		if want != "" {
			text += ": did you mean " + want + "?"
		}
		assert.EqualError(t, gates.Set(name+"=true"), text)
	}
}

func TestStageHasName(t *testing.T) {
	for stage, want := range map[featuregate.Stage]string{
		0: "Stage(0)", featuregate.Alpha: "Alpha", featuregate.Beta: "Beta", featuregate.GA: "GA", featuregate.Deprecated: "Deprecated",
		featuregate.Removed: "Removed", featuregate.Removed + 1: "Stage(6)",
	} {
		assert.Equal(t, want, stage.String())
	}
}

// The flag is defined before it is known whether the program emulates an older version (kubernetes#133912).
func TestUsageListsWhatEmulationCanTurnOff(t *testing.T) {
	gates, err := one(t, "", featuregate.Phase{Since: "1.2", Stage: featuregate.Alpha}, featuregate.Phase{Since: "1.4", Stage: featuregate.GA})
	require.NoError(t, err)
	assert.Contains(t, gates.Usage(), "\nX (GA since 1.4, always on; can be set while an older version is emulated)")
	require.NoError(t, gates.Emulate("1.2"))
	assert.Contains(t, gates.Usage(), "\nX (Alpha since 1.2, default off)")
	for _, phases := range [][]featuregate.Phase{
		{{Since: "1.4", Stage: featuregate.GA}}, // new with that version, so that an older one does not have it
		{{Since: "1.2", Stage: featuregate.Alpha}, {Since: "1.4", Stage: featuregate.Removed}},
	} {
		gates, err = one(t, "1.4", phases...)
		require.NoError(t, err)
		assert.NotContains(t, gates.Usage(), "\nX (", "it cannot be set")
	}
}

func TestSetAppliesAllOrNothing(t *testing.T) {
	gates := newGates("1.4")
	err := gates.Set("CrashLoop=false,Shards,OldAPI=perhaps,,CrashLoop=true,CrashLop=true,Zebra=true")
	assert.EqualError(t, err, `featuregate: "Shards" has no value: write Shards=true or Shards=false; `+
		`OldAPI is "perhaps", must be true or false; CrashLoop is set to true and to false; `+
		`unknown feature "CrashLop": did you mean CrashLoop?; unknown feature "Zebra"`)
	assert.True(t, gates.Enabled(CrashLoop))

	err = gates.Set("CrashLoop=false,CrashLop=true,Zebra=true,allalpha=true")
	assert.EqualError(t, err, `featuregate: unknown feature "CrashLop": did you mean CrashLoop?; `+
		`unknown feature "Zebra"; unknown feature "allalpha": did you mean AllAlpha?`)
	assert.True(t, gates.Enabled(CrashLoop))
	assert.Empty(t, gates.String())
}

func TestFlagWinsOverEnvironment(t *testing.T) {
	t.Setenv("GATES", "Shards=true,OldAPI=false")
	gates := newGates("1.4")
	require.NoError(t, gates.SetFromEnv("GATES"))
	require.NoError(t, gates.SetFromEnv("GATES_THAT_ARE_NOT_SET"))
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.Var(gates, "gates", "")
	require.NoError(t, flags.Parse([]string{"-gates=OldAPI=true", "-gates", " CrashLoop = 1 "}))
	assert.Equal(t, "CrashLoop=true,OldAPI=true,Shards=true", gates.String())
	assert.True(t, gates.Enabled(OldAPI))
}

func TestLockRejectsLaterSettings(t *testing.T) {
	gates := newGates("1.4")
	require.NoError(t, gates.Lock())
	require.NoError(t, gates.Lock())
	assert.EqualError(t, gates.Set("Shards=true"), "featuregate: the gates are locked: set features before Lock")
	assert.NoError(t, gates.Set(""))
	assert.EqualError(t, gates.Emulate("1.2"), "featuregate: emulate version 1.2: the gates are locked")
	assert.False(t, gates.Enabled(Shards))
}

func TestLockLogsSettingsAndState(t *testing.T) {
	var out bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	gates, err := featuregate.New(featuregate.Config[Feature]{
		Version: "v1.4.0-rc.2", Features: features, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: drop})),
	})
	require.NoError(t, err)
	require.NoError(t, gates.Set("AllAlpha=true,OldAPI=false,CrashLoop=true"))
	require.NoError(t, gates.Lock())
	require.NoError(t, gates.Lock())
	assert.Equal(t, `level=WARN msg="feature gate is set: this setting loses its effect when the feature is generally available" feature=CrashLoop enabled=true stage=Beta
level=WARN msg="feature gate is set: this feature is deprecated and will be removed" feature=OldAPI enabled=false stage=Deprecated
level=WARN msg="feature gate is set: this feature may change or be removed in any version" feature=Shards enabled=true stage=Alpha
level=INFO msg="feature gates" version=1.4 features.CrashLoop=true features.OldAPI=false features.Shards=true
`, out.String())
}

// The flags and variables of a program come in any order, and the version to emulate is one of them.
func TestLockChecksSettingsInAnyOrderOfInputs(t *testing.T) {
	old := []featuregate.Phase{{Since: "1.2", Stage: featuregate.Beta}, {Since: "1.4", Stage: featuregate.GA}}
	t.Setenv("GATES", "X=false")
	emulate := "-emulate=1.2"
	for _, args := range [][]string{
		{emulate, "-gates=X=false"}, {"-gates=X=false", emulate}, {emulate}, {"-emulate=1.4", emulate}, {"-gates=X=0", "-emulate=1.3"},
	} {
		gates, err := one(t, "", old...)
		require.NoError(t, err)
		require.NoError(t, gates.SetFromEnv("GATES"))
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.Var(gates, "gates", gates.Usage())
		flags.Func("emulate", "", gates.Emulate)
		require.NoError(t, flags.Parse(args), args)
		require.NoError(t, gates.Lock(), args)
		assert.False(t, gates.Enabled(0), args)
	}
}

func TestLockSaysWhereAWrongSettingCameFrom(t *testing.T) {
	t.Setenv("GATES", "Old=false,New=true")
	made := func() *featuregate.Gates[Feature] {
		return must(featuregate.New(featuregate.Config[Feature]{Logger: quiet, Features: []featuregate.Feature[Feature]{
			{Name: "Old", History: []featuregate.Phase{{Since: "1.0", Stage: featuregate.Beta}, {Since: "1.3", Stage: featuregate.GA}}},
			{Name: "New", History: []featuregate.Phase{{Since: "1.3", Stage: featuregate.Alpha}}},
		}}))
	}
	gates := made()
	require.NoError(t, gates.SetFromEnv("GATES"))
	require.EqualError(t, gates.Lock(),
		"featuregate: GATES: Old is always on since version 1.3: emulate an older version to turn it off")
	require.NoError(t, gates.Emulate("1.2"), "a failed Lock locks nothing")
	require.EqualError(t, gates.Lock(), "featuregate: GATES: New is new in version 1.3, and this is version 1.2")
	assert.False(t, gates.Enabled(0))
	assert.False(t, gates.Enabled(1))
	require.NoError(t, gates.Set("New=true"))
	require.EqualError(t, gates.Lock(), "featuregate: New is new in version 1.3, and this is version 1.2")
	require.NoError(t, gates.Set("New=false"))
	require.Error(t, gates.Lock(), "no value is allowed")
	assert.Equal(t, "New=false,Old=false", gates.String())
	gates = made()
	require.NoError(t, gates.SetFromEnv("GATES"))
	require.NoError(t, gates.Set("Old=true"))
	require.NoError(t, gates.Lock())
}

func TestEmulatedVersionDeterminesStages(t *testing.T) {
	gates, err := one(t, "1.4", featuregate.Phase{Since: "1.2", Stage: featuregate.Alpha}, featuregate.Phase{Since: "1.4", Stage: featuregate.GA})
	require.NoError(t, err)
	assert.EqualError(t, gates.Emulate("1.5"), "featuregate: emulate version 1.5: it is newer than this program, which is version 1.4")
	assert.EqualError(t, gates.Emulate("old"), `featuregate: emulate: "old" is not a version such as 1.4`)
	require.NoError(t, gates.Emulate("1.3.9"))
	assert.False(t, gates.Enabled(0))
	assert.Equal(t, "1.3.9", gates.Version())
	require.NoError(t, gates.Set("X=false"), "it is alpha there")
	test := &fatal{T: t, name: "Test"}
	gates.Override(test, 0, false)
	assert.Empty(t, test.failure)
	assert.EqualError(t, gates.Emulate("1.4"),
		"featuregate: emulate version 1.4: X is always on since version 1.4: emulate an older version to turn it off")
	assert.EqualError(t, gates.Emulate("1.1"), "featuregate: emulate version 1.1: X is new in version 1.2, and this is version 1.1")
	assert.Equal(t, "1.3.9", gates.Version(), "a rejected call changes nothing")
	test.end()
	require.NoError(t, gates.Emulate("1.4"))
	assert.True(t, gates.Enabled(0))
	require.EqualError(t, gates.Lock(), "featuregate: X is always on since version 1.4: emulate an older version to turn it off")
}

func TestUndeclaredFeaturePanics(t *testing.T) {
	gates := newGates("1.4")
	for _, f := range []Feature{-1, 3} {
		want := fmt.Sprintf("featuregate: no feature %d is declared", f)
		assert.PanicsWithValue(t, want, func() { gates.Enabled(f) })
		assert.PanicsWithValue(t, want, func() { gates.Override(t, f, true) })
	}
}

func TestNewCopiesConfig(t *testing.T) {
	phases := []featuregate.Phase{{Since: "1.0", Stage: featuregate.Alpha}}
	gates, err := one(t, "1.0", phases...)
	require.NoError(t, err)
	phases[0] = featuregate.Phase{Since: "1.0", Stage: featuregate.GA}
	require.NoError(t, gates.Set("X=false"))
}

func TestZeroConfigHasNoFeatures(t *testing.T) {
	gates, err := featuregate.New(featuregate.Config[Feature]{})
	require.NoError(t, err)
	assert.EqualError(t, gates.Set("X=true"), `featuregate: unknown feature "X"`)
	require.NoError(t, gates.Set("AllAlpha=true"))
	require.NoError(t, gates.Lock())
	assert.Empty(t, new(featuregate.Gates[Feature]).String(), "package flag calls it")
}

// fatal is a test that notes its failure.
type fatal struct {
	*testing.T
	name    string
	failure string
	cleanup []func()
}

func (f *fatal) Name() string                      { return f.name }
func (f *fatal) Fatalf(format string, args ...any) { f.failure = fmt.Sprintf(format, args...) }
func (f *fatal) Cleanup(c func())                  { f.cleanup = append(f.cleanup, c) }
func (f *fatal) end() {
	for i := len(f.cleanup) - 1; i >= 0; i-- {
		f.cleanup[i]()
	}
}

func TestOverrideThatBreaksARuleFails(t *testing.T) {
	gates := newGates("1.4")
	a, b := &fatal{T: t, name: "TestA"}, &fatal{T: t, name: "TestAB"}
	gates.Override(a, CrashLoop, false)
	gates.Override(b, CrashLoop, true)
	assert.Equal(t, "featuregate: override: TestA overrides CrashLoop now: tests that run in parallel need Gates of their own", b.failure)
	gates = newGates("1.5")
	gates.Override(b, OldAPI, true)
	assert.Equal(t, "featuregate: override: OldAPI was removed in version 1.5", b.failure)
	gates.Override(b, CrashLoop, false)
	gates.Override(b, Shards, true)
	assert.Equal(t, "featuregate: override: Shards requires CrashLoop, which is off", b.failure)
}

func TestEnabledAllocatesNothing(t *testing.T) {
	gates := newGates("1.4")
	assert.Zero(t, testing.AllocsPerRun(100, func() { gates.Enabled(Shards) }))
}

func FuzzSet(f *testing.F) {
	f.Add("CrashLoop=false,Shards=true")
	f.Add("AllAlpha=1, =,")
	f.Fuzz(func(t *testing.T, s string) {
		gates := newGates("1.4")
		before := fmt.Sprint(gates.LogValue())
		if err := gates.Set(s); err != nil {
			assert.Equal(t, before, fmt.Sprint(gates.LogValue()), "none of it is in effect")
			assert.Empty(t, gates.String())
			return
		}
		again := newGates("1.4")
		require.NoError(t, again.Set(gates.String()))
		assert.Equal(t, fmt.Sprint(gates.LogValue()), fmt.Sprint(again.LogValue()), "Set reads what String returns")
	})
}
