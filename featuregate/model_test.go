package featuregate_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/featuregate"
)

// model predicts what Gates do. It follows the package documentation in the plainest way: it keeps what was called, and
// computes everything else again whenever it is asked.
type model struct {
	versions  []string // all versions there are, oldest first
	features  []featuregate.Feature[Feature]
	program   string
	emulated  string // or the program's version
	settings  map[string]bool
	overrides []override
	locked    bool
}

type override struct {
	test    string
	feature Feature
	enabled bool
}

// pair is a setting as Set reads it.
type pair struct{ name, value string }

func newModel(versions []string, cfg featuregate.Config[Feature]) *model {
	m := &model{versions: versions, features: cfg.Features, program: cfg.Version, settings: make(map[string]bool)}
	if m.program == "" {
		m.program = versions[0]
		for _, f := range m.features {
			for _, p := range f.History {
				if m.age(p.Since) > m.age(m.program) {
					m.program = p.Since
				}
			}
		}
	}
	m.emulated = m.program
	return m
}

// clone returns a model that goes its own way.
func (m *model) clone() *model {
	c := *m
	c.settings = maps.Clone(m.settings)
	c.overrides = slices.Clone(m.overrides)
	return &c
}

func (m *model) age(version string) int { return slices.Index(m.versions, version) }

// valid reports whether New takes the declarations.
func (m *model) valid() bool {
	for _, f := range m.features {
		if len(f.History) == 0 {
			return false
		}
		for i, p := range f.History[1:] {
			if before := f.History[i]; m.age(p.Since) <= m.age(before.Since) || p.Stage <= before.Stage {
				return false
			}
		}
	}
	for _, v := range m.versions {
		there := &model{versions: m.versions, features: m.features, program: v, emulated: v}
		if !there.fits() {
			return false
		}
	}
	return true
}

// fits reports whether each feature that is on has those that it requires.
func (m *model) fits() bool {
	for i, f := range m.features {
		for _, required := range f.Requires {
			if m.stage(Feature(i)) != featuregate.Removed && m.enabled(Feature(i)) && !m.enabled(required) {
				return false
			}
		}
	}
	return true
}

// phase returns the number of the phase that is in force, or -1 for a feature that is too new.
func (m *model) phase(f Feature) int {
	at := func(version string) int {
		phase := -1
		for i, p := range m.features[f].History {
			if m.age(p.Since) <= m.age(version) {
				phase = i
			}
		}
		return phase
	}
	if now := at(m.program); now >= 0 && m.features[f].History[now].Stage == featuregate.Removed {
		return now
	}
	return at(m.emulated)
}

// stage returns the stage that is in force, or 0 for a feature that is too new.
func (m *model) stage(f Feature) featuregate.Stage {
	if p := m.phase(f); p >= 0 {
		return m.features[f].History[p].Stage
	}
	return 0
}

// byDefault returns the value of a feature in one of its phases. "After GA" is taken to mean: in the phase right after it.
func (m *model) byDefault(f Feature, phase int) bool {
	if phase < 0 {
		return false
	}
	history := m.features[f].History
	switch history[phase].Stage {
	case featuregate.Beta, featuregate.GA:
		return true
	case featuregate.Deprecated:
		return m.byDefault(f, phase-1)
	case featuregate.Removed:
		return phase > 0 && history[phase-1].Stage == featuregate.GA
	}
	return false
}

// may reports whether a feature may have a value.
func (m *model) may(f Feature, value bool) bool {
	switch m.stage(f) {
	case 0, featuregate.Removed:
		return false
	case featuregate.GA:
		return value
	}
	return true
}

// ever reports whether a feature may have a value in the program's version, or in one that it may emulate.
func (m *model) ever(f Feature, value bool) bool {
	for _, v := range m.versions[:m.age(m.program)+1] {
		then := m.clone()
		then.emulated = v
		if then.may(f, value) {
			return true
		}
	}
	return false
}

// setting returns the setting of a feature, and whether there is one.
func (m *model) setting(f Feature) (value, ok bool) {
	if value, ok = m.settings[m.features[f].Name]; ok {
		return value, true
	}
	switch m.stage(f) {
	case featuregate.Alpha:
		value, ok = m.settings["AllAlpha"]
	case featuregate.Beta:
		value, ok = m.settings["AllBeta"]
	}
	return value, ok
}

func (m *model) enabled(f Feature) bool {
	for _, o := range slices.Backward(m.overrides) {
		if o.feature == f {
			return o.enabled
		}
	}
	if value, ok := m.setting(f); ok && m.may(f, value) {
		return value
	}
	return m.byDefault(f, m.phase(f))
}

func (m *model) named(name string) (Feature, bool) {
	i := slices.IndexFunc(m.features, func(f featuregate.Feature[Feature]) bool { return f.Name == name })
	return Feature(i), i >= 0
}

// set predicts whether a call of Set or SetMap succeeds.
func (m *model) set(pairs []pair) bool {
	if m.locked {
		return false
	}
	settings := make(map[string]bool)
	for _, p := range pairs {
		value, err := strconv.ParseBool(p.value)
		if err != nil {
			return false
		}
		if other, ok := settings[p.name]; ok && other != value {
			return false
		}
		settings[p.name] = value
		if p.name == "AllAlpha" || p.name == "AllBeta" {
			continue
		}
		if f, ok := m.named(p.name); !ok || !m.ever(f, value) {
			return false
		}
	}
	maps.Copy(m.settings, settings)
	return true
}

func (m *model) emulate(version string) bool {
	if m.locked || m.age(version) < 0 || m.age(version) > m.age(m.program) {
		return false
	}
	then := m.clone()
	then.emulated = version
	for _, o := range m.overrides {
		if !then.may(o.feature, o.enabled) {
			return false
		}
	}
	m.emulated = version
	return true
}

func (m *model) lock() bool {
	allowed := true
	for name, value := range m.settings {
		if f, ok := m.named(name); ok && !m.may(f, value) {
			allowed = false
		}
	}
	m.locked = m.locked || allowed && m.fits()
	return m.locked
}

func (m *model) override(o override) bool {
	for _, other := range m.overrides {
		if other.feature == o.feature && !within(o.test, other.test) {
			return false
		}
	}
	then := m.clone()
	then.overrides = append(then.overrides, o)
	if !m.may(o.feature, o.enabled) || !then.fits() {
		return false
	}
	m.overrides = then.overrides
	return true
}

func (m *model) end(test string) {
	m.overrides = slices.DeleteFunc(m.overrides, func(o override) bool { return o.test == test })
}

// within reports whether a test is another one, or a subtest of it.
func within(test, other string) bool { return test == other || strings.HasPrefix(test, other+"/") }

func (m *model) all() (all []featuregate.Status) {
	for i, f := range m.features {
		p := m.phase(Feature(i))
		if p < 0 || f.History[p].Stage == featuregate.Removed {
			continue
		}
		_, set := m.setting(Feature(i))
		all = append(all, featuregate.Status{
			Name: f.Name, Description: f.Description, Stage: f.History[p].Stage, Since: f.History[p].Since,
			Enabled: m.enabled(Feature(i)), Default: m.byDefault(Feature(i), p), Set: set,
		})
	}
	slices.SortFunc(all, func(a, b featuregate.Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (m *model) String() string {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(m.settings)) {
		settings = append(settings, name+"="+strconv.FormatBool(m.settings[name]))
	}
	return strings.Join(settings, ",")
}

// call is one call of Gates. It reports whether it succeeds, by the model and in fact.
type call struct {
	text string
	run  func(m *model, g *featuregate.Gates[Feature]) (want, got bool)
}

func setOf(pairs ...pair) call {
	var text []string
	for _, p := range pairs {
		text = append(text, p.name+"="+p.value)
	}
	s := strings.Join(text, ",")
	return call{"Set " + s, func(m *model, g *featuregate.Gates[Feature]) (bool, bool) { return m.set(pairs), g.Set(s) == nil }}
}

func setMapOf(settings map[string]bool) call {
	var pairs []pair
	for name, value := range settings {
		pairs = append(pairs, pair{name, strconv.FormatBool(value)})
	}
	return call{fmt.Sprint("SetMap ", settings), func(m *model, g *featuregate.Gates[Feature]) (bool, bool) {
		return m.set(pairs), g.SetMap(settings) == nil
	}}
}

func emulateOf(version string) call {
	return call{"Emulate " + version, func(m *model, g *featuregate.Gates[Feature]) (bool, bool) {
		return m.emulate(version), g.Emulate(version) == nil
	}}
}

func lockOf() call {
	return call{"Lock", func(m *model, g *featuregate.Gates[Feature]) (bool, bool) { return m.lock(), g.Lock() == nil }}
}

func overrideOf(t *modelTest, f Feature, enabled bool) call {
	return call{fmt.Sprintf("Override of %d by %s to %t", f, t.name, enabled),
		func(m *model, g *featuregate.Gates[Feature]) (bool, bool) {
			return m.override(override{t.name, f, enabled}), t.survives(func() { g.Override(t, f, enabled) })
		}}
}

func endOf(t *modelTest) call {
	return call{"end of " + t.name, func(m *model, g *featuregate.Gates[Feature]) (bool, bool) {
		m.end(t.name)
		t.end()
		return true, true
	}}
}

// modelTest is a test that overrides features.
type modelTest struct {
	name    string
	cleanup []func()
}

// failure is what Fatalf panics with, so that a test ends at once.
type failure string

func (t *modelTest) Helper()                           {}
func (t *modelTest) Name() string                      { return t.name }
func (t *modelTest) Cleanup(f func())                  { t.cleanup = append(t.cleanup, f) }
func (t *modelTest) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func (t *modelTest) survives(f func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			_ = r.(failure)
			ok = false
		}
	}()
	f()
	return true
}

func (t *modelTest) end() {
	for _, f := range slices.Backward(t.cleanup) {
		f()
	}
	t.cleanup = nil
}

// trial makes calls of gates and of their model, and compares them after each.
type trial struct {
	*testing.T
	cfg   featuregate.Config[Feature]
	model *model
	gates *featuregate.Gates[Feature]
	calls []call
}

// newTrial returns nil if the declarations are wrong, and both agree that they are.
func newTrial(t *testing.T, versions []string, cfg featuregate.Config[Feature]) *trial {
	m := newModel(versions, cfg)
	g, err := featuregate.New(cfg)
	tr := &trial{T: t, cfg: cfg, model: m, gates: g}
	if want := m.valid(); want != (err == nil) {
		tr.differ("New: want success %t, have error %v", want, err)
	}
	if err != nil {
		return nil
	}
	tr.compare()
	return tr
}

// again returns a trial from the start, for one that has made no calls.
func (tr *trial) again() *trial {
	return &trial{T: tr.T, cfg: tr.cfg, model: tr.model.clone(), gates: must(featuregate.New(tr.cfg))}
}

func (tr *trial) do(calls ...call) {
	for _, c := range calls {
		tr.make(c)
		tr.compare()
	}
}

// repeat makes calls after which another trial has compared already.
func (tr *trial) repeat(calls ...call) *trial {
	for _, c := range calls {
		tr.make(c)
	}
	return tr
}

func (tr *trial) make(c call) {
	tr.calls = append(tr.calls, c)
	if want, got := c.run(tr.model, tr.gates); want != got {
		tr.differ("want success %t, have %t", want, got)
	}
}

func (tr *trial) compare() {
	m, g := tr.model, tr.gates
	same := g.Version() == m.emulated && g.String() == m.String() && slices.Equal(slices.Collect(g.All()), m.all())
	for i := range m.features {
		same = same && g.Enabled(Feature(i)) == m.enabled(Feature(i))
	}
	if same {
		return
	}
	var want, got []bool
	for i := range m.features {
		want, got = append(want, m.enabled(Feature(i))), append(got, g.Enabled(Feature(i)))
	}
	tr.differ("the model is at %s, set %q, %v, %+v\nthe gates are at %s, set %q, %v, %+v",
		m.emulated, m, want, m.all(), g.Version(), g, got, slices.Collect(g.All()))
}

func (tr *trial) differ(format string, args ...any) {
	var text strings.Builder
	text.WriteString(describe(tr.cfg))
	for _, c := range tr.calls {
		text.WriteString("\n" + c.text)
	}
	require.FailNow(tr.T, "the gates differ from the model", "%s\n%s", text.String(), fmt.Sprintf(format, args...))
}

func describe(cfg featuregate.Config[Feature]) string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("program version %q", cfg.Version))
	for i, f := range cfg.Features {
		text.WriteString(fmt.Sprintf("\n%d %s: %v requires %v", i, f.Name, f.History, f.Requires))
	}
	return text.String()
}
