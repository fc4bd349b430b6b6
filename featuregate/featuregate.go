package featuregate

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Stage is the maturity of a feature.
type Stage int

// The stages, in the order in which a feature passes through them. A feature may skip some.
const (
	Alpha      Stage = iota + 1 // off by default
	Beta                        // on by default
	GA                          // on; generally available
	Deprecated                  // as before, but will be removed
	Removed                     // can no longer be set
)

// String returns the name of the stage, such as "Beta".
func (s Stage) String() string {
	switch s {
	case Alpha:
		return "Alpha"
	case Beta:
		return "Beta"
	case GA:
		return "GA"
	case Deprecated:
		return "Deprecated"
	case Removed:
		return "Removed"
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}

// allows reports whether a feature of this stage may be set to on. Zero is the stage of a feature that is too new.
func (s Stage) allows(on bool) bool { return s != 0 && s != Removed && (s != GA || on) }

// Phase is a part of the life of a feature: it has the given stage from version Since of the program on.
type Phase struct {
	Since string // one to three numbers, such as "1.4"; "v" before them and "-rc.1" after them are ignored
	Stage Stage
}

// Feature declares a feature of a program whose features are constants of type F.
type Feature[F ~int] struct {
	// Name is the name in flags, logs and metrics, such as "CrashLoop": ASCII letters and digits, a letter first. No other feature has it,
	// nor is it AllAlpha or AllBeta.
	Name string

	// Description is a sentence for the people who may set the feature. Optional.
	Description string

	// History has the phases of the feature, oldest first. There must be one. Versions and stages only go up.
	History []Phase

	// Requires has the features that must be on whenever this one is. If this feature is on by default in a version, they must also be on
	// by default in that version. A removed feature requires nothing.
	Requires []F
}

// Config is the configuration of [Gates].
type Config[F ~int] struct {
	// Version is the version of the program, in the form of Phase.Since. Defaults to the newest version in the histories.
	Version string

	// Features declares each feature at the index of its constant.
	Features []Feature[F]

	// Logger receives the reports of Lock. Defaults to slog.Default().
	Logger *slog.Logger
}

// Gates is a set of features, each of which is on or off. It is a flag.Value and an slog.LogValuer.
//
// All methods are safe for concurrent use. Enabled costs an atomic load.
type Gates[F ~int] struct {
	features []Feature[F]
	since    [][]version // of the phases in the History of each feature
	logger   *slog.Logger
	program  version // of this program
	on       []atomic.Bool

	mu sync.Mutex
	// mu guards the following, and writes to on. Invariant: on is the result of update.
	version   version // that decides the stages: the program's, or the emulated one
	settings  map[string]bool
	from      map[string]string // the environment variable of each setting, or ""
	locked    bool
	overrides []override[F]
}

// New returns the gates of a program, each at its default. The error names every invalid declaration.
func New[F ~int](cfg Config[F]) (*Gates[F], error) {
	g := &Gates[F]{
		logger: cmp.Or(cfg.Logger, slog.Default()),
		on:     make([]atomic.Bool, len(cfg.Features)), settings: make(map[string]bool), from: make(map[string]string),
	}
	for _, f := range cfg.Features {
		f.History, f.Requires = slices.Clone(f.History), slices.Clone(f.Requires)
		g.features = append(g.features, f)
	}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("featuregate: new gates: %w", err)
	}
	for _, v := range g.versions() {
		g.program = v
	}
	if cfg.Version != "" {
		v, err := parseVersion(cfg.Version)
		if err != nil {
			return nil, fmt.Errorf("featuregate: new gates: Config.Version: %w", err)
		}
		g.program = v
	}
	g.version = g.program
	g.update()
	return g, nil
}

// check returns an error for each invalid declaration, and sets g.since.
func (g *Gates[F]) check() error {
	var errs []error
	g.since = make([][]version, len(g.features))
	names := map[string]bool{allAlpha: true, allBeta: true}
	for i, f := range g.features {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("Config.Features[%d]: %s", i, fmt.Sprintf(format, args...)))
		}
		switch {
		case f.Name == "":
			bad("Feature.Name is empty")
		case !isName(f.Name):
			bad("Feature.Name is %q, must have letters and digits only, a letter first", f.Name)
		case names[f.Name]:
			bad("Feature.Name is %q, which is taken", f.Name)
		}
		names[f.Name] = true
		if len(f.History) == 0 {
			bad("Feature.History of %s is empty", f.Name)
		}
		var last Phase
		var lastSince version
		g.since[i] = make([]version, len(f.History))
		for n, p := range f.History {
			since, err := parseVersion(p.Since)
			switch {
			case err != nil:
				bad("Phase.Since of %s: %v", f.Name, err)
			case p.Stage < Alpha || p.Stage > Removed:
				bad("Phase.Stage of %s is %v, must be a stage", f.Name, p.Stage)
			case last.Stage != 0 && since.compare(lastSince) <= 0:
				bad("Feature.History of %s: version %s does not come after version %s", f.Name, p.Since, last.Since)
			case p.Stage <= last.Stage:
				bad("Feature.History of %s: stage %v cannot follow stage %v", f.Name, p.Stage, last.Stage)
			}
			last, lastSince = p, since
			g.since[i][n] = since
		}
		for _, r := range f.Requires {
			if r < 0 || int(r) >= len(g.features) {
				bad("Feature.Requires of %s: no feature %d is declared", f.Name, r)
			} else if int(r) == i {
				bad("Feature.Requires of %s: it requires itself", f.Name)
			}
		}
	}
	if err := problems.Join(errs...); err != nil {
		return err
	}
	for _, v := range g.versions() {
		g.program = v
		if err := g.missing(v, g.resolve(v, nil)); err != nil {
			return fmt.Errorf("Feature.Requires: the defaults in version %v do not fit: %w", v, err)
		}
	}
	return nil
}

// Enabled reports whether the feature is on. It panics if the feature was not declared.
func (g *Gates[F]) Enabled(feature F) bool {
	if uint(feature) >= uint(len(g.on)) {
		undeclared(int(feature))
	}
	return g.on[feature].Load()
}

func undeclared(feature int) {
	panic(fmt.Sprintf("featuregate: no feature %d is declared", feature))
}

// versions returns the versions in which a phase begins, oldest first.
func (g *Gates[F]) versions() []version {
	vs := slices.Concat(g.since...)
	slices.SortFunc(vs, version.compare)
	return slices.Compact(vs)
}

// phase returns the phase of a feature in a version, and the phase before it in the history. Both are zero if the version is
// older than the feature.
func (g *Gates[F]) phase(feature F, v version) (now, before Phase) {
	for i, p := range g.features[feature].History {
		since := g.since[feature][i]
		removed := p.Stage == Removed && since.compare(g.program) <= 0 // even if the program emulates an older version
		if !removed && since.compare(v) > 0 {
			continue
		}
		if now = p; i > 0 {
			before = g.features[feature].History[i-1]
		}
	}
	return now, before
}

// defaultOf reports whether a feature is on by default.
func defaultOf(now, before Phase) bool {
	switch now.Stage {
	case Beta, GA:
		return true
	case Deprecated:
		return before.Stage != Alpha
	case Removed:
		return before.Stage == GA
	}
	return false
}

// resolve returns which features are on in a version, with these settings. A setting that is not allowed in the version has no effect.
func (g *Gates[F]) resolve(v version, settings map[string]bool) []bool {
	on := make([]bool, len(g.features))
	for i, f := range g.features {
		now, before := g.phase(F(i), v)
		on[i] = defaultOf(now, before)
		if all, ok := settings[allOf(now.Stage)]; ok {
			on[i] = all
		}
		if set, ok := settings[f.Name]; ok && now.Stage.allows(set) {
			on[i] = set
		}
	}
	return on
}

// missing returns an error for each feature that is on without one that it requires.
func (g *Gates[F]) missing(v version, on []bool) error {
	var errs []error
	for i, f := range g.features {
		if now, _ := g.phase(F(i), v); !on[i] || now.Stage == Removed {
			continue
		}
		for _, r := range f.Requires {
			if on[r] {
				continue
			}
			why := "is off"
			if now, _ := g.phase(r, v); now.Stage == 0 {
				why = "is newer than version " + v.String()
			}
			errs = append(errs, fmt.Errorf("%s requires %s, which %s", f.Name, g.features[r].Name, why))
		}
	}
	return problems.Join(errs...)
}

// update turns features on and off. The caller holds mu, or is the only user of g.
func (g *Gates[F]) update() {
	on := g.resolve(g.version, g.settings)
	for _, o := range g.overrides {
		on[o.feature] = o.enabled
	}
	for i, b := range on {
		g.on[i].Store(b)
	}
}
