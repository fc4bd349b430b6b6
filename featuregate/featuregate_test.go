package featuregate_test

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"testing"

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
	}{
		{stages: []featuregate.Stage{a}},
		{stages: []featuregate.Stage{a, b}, on: true},
		{stages: []featuregate.Stage{b}, on: true},
		{stages: []featuregate.Stage{a, ga}, on: true, off: "X is always on since version 1.2"},
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
				if err != nil {
					t.Fatal(err)
				}
				if got := gates.Enabled(0); got != c.on {
					t.Errorf("gates.Enabled(0) = %v, want %v", got, c.on)
				}
				err = gates.SetMap(map[string]bool{"X": on})
				if want != "" {
					if got, want := fmt.Sprint(err), "featuregate: "+want; got != want {
						t.Errorf("err = %q, want %q", got, want)
					}
					if got := gates.Enabled(0); got != c.on {
						t.Errorf("gates.Enabled(0) = %v, want %v", got, c.on)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := gates.Enabled(0); got != on {
					t.Errorf("gates.Enabled(0) = %v, want %v", got, on)
				}
			}
		})
	}
}

func TestInvalidSpecErrorsNameTheFeature(t *testing.T) {
	since := func(v string, s featuregate.Stage) featuregate.Phase { return featuregate.Phase{Since: v, Stage: s} }
	alpha := []featuregate.Phase{since("1.0", featuregate.Alpha)}
	type f = featuregate.Feature[Feature]
	for want, cfg := range map[string]featuregate.Config[Feature]{
		"Config.Features[0]: Feature.Name is empty":                                    {Features: []f{{History: alpha}}},
		`Config.Features[0]: Feature.Name is "A=b", must have letters and digits only`: {Features: []f{{Name: "A=b", History: alpha}}},
		`Config.Features[0]: Feature.Name is "AllBeta", which is taken`:                {Features: []f{{Name: "AllBeta", History: alpha}}},
		`Config.Features[1]: Feature.Name is "A", which is taken`:                      {Features: []f{{Name: "A", History: alpha}, {Name: "A", History: alpha}}},
		"Config.Features[0]: Feature.History of A is empty":                            {Features: []f{{Name: "A"}}},
		`Config.Features[0]: Phase.Since of A: "next" is not a version such as 1.4`: {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("next", featuregate.Beta)}}}},
		"Config.Features[0]: Phase.Stage of A is Stage(0), must be a stage": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.0", 0)}}}},
		"Config.Features[0]: Feature.History of A: version 1.9 does not come after version 1.10": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.10", featuregate.Alpha), since("1.9", featuregate.Beta)}}}},
		"Config.Features[0]: Feature.History of A: stage Beta cannot follow stage GA": {
			Features: []f{{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.GA), since("1.2", featuregate.Beta)}}}},
		"Config.Features[0]: Feature.Requires of A: no feature 5 is declared": {Features: []f{{Name: "A", History: alpha, Requires: []Feature{5}}}},
		"Config.Features[0]: Feature.Requires of A: it requires itself":       {Features: []f{{Name: "A", History: alpha, Requires: []Feature{0}}}},
		"Feature.Requires: the defaults in version 1.2 do not fit: A requires B, which is off": {Features: []f{
			{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.Alpha), since("1.2", featuregate.Beta)}, Requires: []Feature{1}},
			{Name: "B", History: []featuregate.Phase{since("1.1", featuregate.Alpha), since("1.3", featuregate.Beta)}}}},
		"Feature.Requires: the defaults in version 1.1 do not fit: A requires B, which is newer than version 1.1": {Features: []f{
			{Name: "A", History: []featuregate.Phase{since("1.1", featuregate.Beta)}, Requires: []Feature{1}},
			{Name: "B", History: []featuregate.Phase{since("1.2", featuregate.Beta)}}}},
		`Config.Version: "1.2.3.4" is not a version such as 1.4`: {Version: "1.2.3.4", Features: []f{{Name: "A", History: alpha}}},
	} {
		_, err := featuregate.New(cfg)
		if got, want := fmt.Sprint(err), "featuregate: new gates: "+want; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	}
}

func TestSetAppliesAllOrNothing(t *testing.T) {
	gates := newGates("1.4")
	err := gates.Set("CrashLoop=false,Shards,OldAPI=perhaps,,CrashLoop=true,CrashLop=true,Zebra=true")
	if got, want := fmt.Sprint(err), `featuregate: "Shards" has no value: write Shards=true or Shards=false
OldAPI is "perhaps", must be true or false
CrashLoop is set to true and to false
unknown feature "CrashLop": did you mean CrashLoop?
unknown feature "Zebra"`; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
	if !gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is false")
	}

	err = gates.Set("CrashLoop=false,CrashLop=true,Zebra=true,allalpha=true")
	if got, want := fmt.Sprint(err), `featuregate: unknown feature "CrashLop": did you mean CrashLoop?
unknown feature "Zebra"
unknown feature "allalpha": did you mean AllAlpha?`; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
	if !gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is false")
	}
	if got := gates.String(); got != "" {
		t.Errorf(`gates.String() = %q, want ""`, got)
	}
}

func TestFeatureSettingWinsOverGroupSetting(t *testing.T) {
	for _, sets := range [][]string{{"CrashLoop=true,AllBeta=false"}, {"CrashLoop=true", "AllBeta=false"}, {"AllBeta=false", "CrashLoop=true"}} {
		gates := newGates("1.4")
		for _, s := range sets {
			if err := gates.Set(s); err != nil {
				t.Fatalf("gates.Set(s): %v", err)
			}
		}
		if !gates.Enabled(CrashLoop) {
			t.Errorf("%v: gates.Enabled(CrashLoop) is false", sets)
		}
		if !gates.Enabled(OldAPI) {
			t.Error("it is neither: gates.Enabled(OldAPI) is false")
		}
	}
	gates := newGates("1.4")
	if err := gates.Set("AllBeta=false,AllAlpha=true"); err != nil {
		t.Fatalf(`gates.Set("AllBeta=false,AllAlpha=true"): %v`, err)
	}
	if gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is true")
	}
	if !gates.Enabled(Shards) {
		t.Error("gates.Enabled(Shards) is false")
	}
	if err := gates.Set("AllBeta=true"); err != nil {
		t.Fatalf(`the later one wins: gates.Set("AllBeta=true"): %v`, err)
	}
	if !gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is false")
	}
}

func TestFlagWinsOverEnvironment(t *testing.T) {
	t.Setenv("GATES", "Shards=true,OldAPI=false")
	gates := newGates("1.4")
	if err := gates.SetFromEnv("GATES"); err != nil {
		t.Fatalf(`gates.SetFromEnv("GATES"): %v`, err)
	}
	if err := gates.SetFromEnv("GATES_THAT_ARE_NOT_SET"); err != nil {
		t.Fatalf(`gates.SetFromEnv("GATES_THAT_ARE_NOT_SET"): %v`, err)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.Var(gates, "gates", "")
	if err := flags.Parse([]string{"-gates=OldAPI=true", "-gates", " CrashLoop = 1 "}); err != nil {
		t.Fatal(err)
	}
	if got, want := gates.String(), "CrashLoop=true,OldAPI=true,Shards=true"; got != want {
		t.Errorf("gates.String() = %q, want %q", got, want)
	}
	if !gates.Enabled(OldAPI) {
		t.Error("gates.Enabled(OldAPI) is false")
	}
}

func TestLockRejectsLaterSettings(t *testing.T) {
	gates := newGates("1.4")
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if got, want := fmt.Sprint(gates.Set("Shards=true")), "featuregate: the gates are locked: set features before Lock"; got != want {
		t.Errorf(`gates.Set("Shards=true") = %q, want %q`, got, want)
	}
	if err := gates.Set(""); err != nil {
		t.Errorf(`gates.Set(""): %v`, err)
	}
	if got, want := fmt.Sprint(gates.Emulate("1.2")), "featuregate: emulate version 1.2: the gates are locked"; got != want {
		t.Errorf(`gates.Emulate("1.2") = %q, want %q`, got, want)
	}
	if gates.Enabled(Shards) {
		t.Error("gates.Enabled(Shards) is true")
	}
}

func TestFailedLockLocksNothing(t *testing.T) {
	gates := newGates("1.4")
	if err := gates.Set("Shards=true,CrashLoop=false"); err != nil {
		t.Fatalf(`gates.Set("Shards=true,CrashLoop=false"): %v`, err)
	}
	if err := gates.Lock(); err == nil {
		t.Fatal("gates.Lock() = nil, want an error")
	}
	if err := gates.Set("CrashLoop=true"); err != nil {
		t.Fatalf(`gates.Set("CrashLoop=true"): %v`, err)
	}
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := gates.Set("AllAlpha=true,OldAPI=false"); err != nil {
		t.Fatalf(`gates.Set("AllAlpha=true,OldAPI=false"): %v`, err)
	}
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if got, want := out.String(), `level=WARN msg="feature gate is set: this feature is deprecated and will be removed" feature=OldAPI enabled=false stage=Deprecated
level=WARN msg="feature gate is set: this feature may change or be removed in any version" feature=Shards enabled=true stage=Alpha
level=INFO msg="feature gates" version=1.4 features.CrashLoop=true features.OldAPI=false features.Shards=true
`; got != want {
		t.Errorf("out.String() = %q, want %q", got, want)
	}
}

func TestEmulatedVersionDeterminesStages(t *testing.T) {
	gates, err := one(t, "1.4", featuregate.Phase{Since: "1.2", Stage: featuregate.Alpha}, featuregate.Phase{Since: "1.4", Stage: featuregate.GA})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(gates.Emulate("1.5")), "featuregate: emulate version 1.5: it is newer than this program, which is version 1.4"; got != want {
		t.Errorf(`gates.Emulate("1.5") = %q, want %q`, got, want)
	}
	if got, want := fmt.Sprint(gates.Emulate("old")), `featuregate: emulate: "old" is not a version such as 1.4`; got != want {
		t.Errorf(`gates.Emulate("old") = %q, want %q`, got, want)
	}
	if err := gates.Emulate("1.3.9"); err != nil {
		t.Fatalf(`gates.Emulate("1.3.9"): %v`, err)
	}
	if gates.Enabled(0) {
		t.Error("gates.Enabled(0) is true")
	}
	if got := gates.Version(); got != "1.3.9" {
		t.Errorf("gates.Version() = %q, want %q", got, "1.3.9")
	}
	if err := gates.Set("X=false"); err != nil {
		t.Fatalf(`it is alpha there: gates.Set("X=false"): %v`, err)
	}
	if got, want := fmt.Sprint(gates.Emulate("1.4")), "featuregate: emulate version 1.4: X is always on since version 1.4"; got != want {
		t.Errorf(`gates.Emulate("1.4") = %q, want %q`, got, want)
	}
	if got, want := fmt.Sprint(gates.Emulate("1.1")), "featuregate: emulate version 1.1: X is new in version 1.2, and this is version 1.1"; got != want {
		t.Errorf(`gates.Emulate("1.1") = %q, want %q`, got, want)
	}
	if got := gates.Version(); got != "1.3.9" {
		t.Errorf("a rejected call changes nothing: gates.Version() = %q, want %q", got, "1.3.9")
	}
}

func TestRemovedFeatureStaysRemovedInEmulation(t *testing.T) {
	for stage, on := range map[featuregate.Stage]bool{featuregate.Beta: false, featuregate.GA: true} {
		gates, err := one(t, "1.4", featuregate.Phase{Since: "1.0", Stage: featuregate.Alpha}, featuregate.Phase{Since: "1.2", Stage: stage},
			featuregate.Phase{Since: "1.4", Stage: featuregate.Removed})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"1.4", "1.3", "1.1"} {
			if err := gates.Emulate(v); err != nil {
				t.Fatalf("gates.Emulate(v): %v", err)
			}
			if got := gates.Enabled(0); got != on {
				t.Errorf("emulating %s: gates.Enabled(0) = %v, want %v", v, got, on)
			}
			if got, want := fmt.Sprint(gates.Set("X=true")), "featuregate: X was removed in version 1.4"; got != want {
				t.Errorf(`gates.Set("X=true") = %q, want %q`, got, want)
			}
		}
		gates, err = one(t, "1.3", featuregate.Phase{Since: "1.2", Stage: stage}, featuregate.Phase{Since: "1.4", Stage: featuregate.Removed})
		if err != nil {
			t.Fatal(err)
		}
		if !gates.Enabled(0) {
			t.Error("not removed yet: gates.Enabled(0) is false")
		}
	}
}

func TestUndeclaredFeaturePanics(t *testing.T) {
	gates := newGates("1.4")
	for _, f := range []Feature{-1, 3} {
		want := fmt.Sprintf("featuregate: no feature %d is declared", f)
		if got := panicOf(func() { gates.Enabled(f) }); got != want {
			t.Errorf("panic = %v, want %v", got, want)
		}
		if got := panicOf(func() { gates.Override(t, f, true) }); got != want {
			t.Errorf("panic = %v, want %v", got, want)
		}
	}
}

func TestNewCopiesConfig(t *testing.T) {
	phases := []featuregate.Phase{{Since: "1.0", Stage: featuregate.Alpha}}
	gates, err := one(t, "1.0", phases...)
	if err != nil {
		t.Fatal(err)
	}
	phases[0] = featuregate.Phase{Since: "1.0", Stage: featuregate.GA}
	if err := gates.Set("X=false"); err != nil {
		t.Fatalf(`gates.Set("X=false"): %v`, err)
	}
}

func TestZeroConfigHasNoFeatures(t *testing.T) {
	gates, err := featuregate.New(featuregate.Config[Feature]{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(gates.Set("X=true")), `featuregate: unknown feature "X"`; got != want {
		t.Errorf(`gates.Set("X=true") = %q, want %q`, got, want)
	}
	if err := gates.Set("AllAlpha=true"); err != nil {
		t.Fatalf(`gates.Set("AllAlpha=true"): %v`, err)
	}
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if got := new(featuregate.Gates[Feature]).String(); got != "" {
		t.Errorf(`package flag calls it: new(featuregate.Gates[Feature]).String() = %q, want ""`, got)
	}
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

func TestOverrideEndsWithTest(t *testing.T) {
	gates := newGates("1.4")
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	outer, inner := &fatal{T: t, name: "TestA"}, &fatal{T: t, name: "TestA/sub"}
	gates.Override(outer, Shards, true)
	gates.Override(outer, Shards, false)
	gates.Override(inner, Shards, true)
	if !gates.Enabled(Shards) {
		t.Error("gates.Enabled(Shards) is false")
	}
	inner.end()
	if gates.Enabled(Shards) {
		t.Error("gates.Enabled(Shards) is true")
	}
	outer.end()
	if gates.Enabled(Shards) {
		t.Error("gates.Enabled(Shards) is true")
	}
	if got := outer.failure + inner.failure; got != "" {
		t.Errorf(`outer.failure+inner.failure = %q, want ""`, got)
	}
}

func TestConflictingOverridesFail(t *testing.T) {
	gates := newGates("1.4")
	a, b := &fatal{T: t, name: "TestA"}, &fatal{T: t, name: "TestAB"}
	gates.Override(a, CrashLoop, false)
	gates.Override(b, CrashLoop, true)
	if want := "featuregate: override: TestA overrides CrashLoop now: tests that run in parallel need Gates of their own"; b.failure != want {
		t.Errorf("b.failure = %q, want %q", b.failure, want)
	}
	if gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is true")
	}
	if err := gates.Set("CrashLoop=true"); err != nil {
		t.Fatalf(`gates.Set("CrashLoop=true"): %v`, err)
	}
	if gates.Enabled(CrashLoop) {
		t.Error("until the test ends: gates.Enabled(CrashLoop) is true")
	}
	a.end()
	if !gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is false")
	}
	gates.Override(&fatal{T: t, name: "TestC"}, OldAPI, false)
}

func TestOverrideFollowsTheRules(t *testing.T) {
	test := &fatal{T: t, name: "Test"}
	gates := newGates("1.5")
	gates.Override(test, OldAPI, true)
	if want := "featuregate: override: OldAPI was removed in version 1.5"; test.failure != want {
		t.Errorf("test.failure = %q, want %q", test.failure, want)
	}
	gates.Override(test, CrashLoop, false)
	gates.Override(test, Shards, true)
	if want := "featuregate: override: Shards requires CrashLoop, which is off"; test.failure != want {
		t.Errorf("test.failure = %q, want %q", test.failure, want)
	}
	test.end()
	if !gates.Enabled(CrashLoop) {
		t.Error("gates.Enabled(CrashLoop) is false")
	}
}

func TestEnabledRunsConcurrentlyWithSettings(t *testing.T) {
	gates := newGates("1.4")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				if err := gates.Set("Shards=true,CrashLoop=true"); err != nil {
					t.Errorf(`gates.Set("Shards=true,CrashLoop=true"): %v`, err)
				}
				gates.Enabled(Shards)
				for range gates.All() {
					_ = gates.String() + gates.Usage()
				}
			}
		})
	}
	wg.Wait()
	if err := gates.Lock(); err != nil {
		t.Fatalf("gates.Lock(): %v", err)
	}
	if got := testing.AllocsPerRun(100, func() { gates.Enabled(Shards) }); got != 0 {
		t.Errorf("testing.AllocsPerRun = %v, want 0", got)
	}
}

func FuzzSet(f *testing.F) {
	f.Add("CrashLoop=false,Shards=true")
	f.Add("AllAlpha=1, =,")
	f.Fuzz(func(t *testing.T, s string) {
		gates := newGates("1.4")
		before := fmt.Sprint(gates.LogValue())
		if err := gates.Set(s); err != nil {
			if got := fmt.Sprint(gates.LogValue()); got != before {
				t.Errorf("none of it is in effect: fmt.Sprint(gates.LogValue()) = %q, want %q", got, before)
			}
			if got := gates.String(); got != "" {
				t.Errorf(`gates.String() = %q, want ""`, got)
			}
			return
		}
		again := newGates("1.4")
		if err := again.Set(gates.String()); err != nil {
			t.Fatalf("again.Set(gates.String()): %v", err)
		}
		if got, want := fmt.Sprint(again.LogValue()), fmt.Sprint(gates.LogValue()); got != want {
			t.Errorf("Set reads what String returns: fmt.Sprint(again.LogValue()) = %q, want %q", got, want)
		}
	})
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
