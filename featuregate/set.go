package featuregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// The names that set all features of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// allOf returns the name that sets all features of a stage, or "".
func allOf(s Stage) string {
	switch s {
	case Alpha:
		return allAlpha
	case Beta:
		return allBeta
	}
	return ""
}

// Set reads settings in the form "CrashLoop=false,Shards=true". Values are those of strconv.ParseBool. Spaces around names and
// values are ignored. It implements flag.Value, so a flag that appears twice adds to the settings.
//
// If a setting is wrong in every version that the program may emulate, nothing takes effect, and the error names each such setting. A name
// is wrong if it is unknown, removed, newer than the program, or given with two values. For an unknown name, the error suggests a similar
// one, if there is one. A value is wrong if it is not a bool. Lock rejects a setting that is wrong only in the version that is then in force:
// of a feature that is newer, or one that is GA and turned off. Until then, such a setting has no effect.
func (g *Gates[F]) Set(s string) error {
	if err := g.setList(s, ""); err != nil {
		return fmt.Errorf("featuregate: %w", err)
	}
	return nil
}

// SetFromEnv calls Set with the value of an environment variable. A variable that is unset or empty changes nothing. Errors about its
// settings, including those of Lock, name the variable.
func (g *Gates[F]) SetFromEnv(variable string) error {
	if err := g.setList(os.Getenv(variable), variable); err != nil {
		return fmt.Errorf("featuregate: %s: %w", variable, err)
	}
	return nil
}

// SetMap is Set for settings that come from elsewhere, such as a configuration file.
func (g *Gates[F]) SetMap(settings map[string]bool) error {
	if err := g.set(settings, "", nil); err != nil {
		return fmt.Errorf("featuregate: %w", err)
	}
	return nil
}

// setList reads and adds settings that come from an environment variable, or from elsewhere if variable is empty.
func (g *Gates[F]) setList(s, variable string) error {
	settings := make(map[string]bool)
	var errs []error
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%q has no value: write %s=true or %[2]s=false", part, name))
			continue
		}
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is %q, must be true or false", name, value))
			continue
		}
		if before, ok := settings[name]; ok && before != on {
			errs = append(errs, fmt.Errorf("%s is set to true and to false", name))
		}
		settings[name] = on
	}
	return g.set(settings, variable, problems.Join(errs...))
}

// set adds settings, or returns unread, which says what could not be read of them, and an error for each one that is wrong in every version.
func (g *Gates[F]) set(settings map[string]bool, variable string, unread error) error {
	if len(settings) == 0 {
		return unread
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.locked {
		return errors.New("the gates are locked: set features before Lock")
	}
	if err := problems.Join(unread, g.possible(settings)); err != nil {
		return err
	}
	for name, on := range settings {
		g.settings[name], g.from[name] = on, variable
	}
	g.update()
	return nil
}

// possible returns an error for each setting that is not allowed in any version that the program may emulate.
func (g *Gates[F]) possible(settings map[string]bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		one := map[string]bool{name: settings[name]}
		err := g.allowed(g.program, one)
		for _, v := range g.versions() { // between two of them, no stage changes
			if v.compare(g.program) < 0 && g.allowed(v, one) == nil {
				err = nil
			}
		}
		errs = append(errs, err)
	}
	return problems.Join(errs...)
}

// refused returns an error for each setting that is not allowed in the version that is in force. The caller holds mu.
func (g *Gates[F]) refused() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(g.settings)) {
		err := g.allowed(g.version, map[string]bool{name: g.settings[name]})
		if err != nil && g.from[name] != "" {
			err = fmt.Errorf("%s: %w", g.from[name], err)
		}
		errs = append(errs, err)
	}
	return problems.Join(errs...)
}

// allowed returns an error for each setting that is not allowed in a version.
func (g *Gates[F]) allowed(v version, settings map[string]bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == allAlpha || name == allBeta {
			continue
		}
		i := g.named(name)
		if i < 0 {
			errs = append(errs, g.unknown(name))
			continue
		}
		switch now, _ := g.phase(i, v); {
		case now.Stage == 0:
			errs = append(errs, fmt.Errorf("%s is new in version %s, and this is version %v", name, g.features[i].History[0].Since, v))
		case now.Stage == Removed:
			errs = append(errs, fmt.Errorf("%s was removed in version %s", name, now.Since))
		case !now.Stage.allows(settings[name]): // GA
			hint := ""
			if g.wasSettable(i) {
				hint = ": emulate an older version to turn it off"
			}
			errs = append(errs, fmt.Errorf("%s is always on since version %s%s", name, now.Since, hint))
		}
	}
	return problems.Join(errs...)
}

// named returns the feature of a name, or -1.
func (g *Gates[F]) named(name string) F {
	return F(slices.IndexFunc(g.features, func(f Feature[F]) bool { return f.Name == name }))
}

// wasSettable reports whether a feature could be turned off in a version in which it was not yet GA.
func (g *Gates[F]) wasSettable(feature F) bool { return g.features[feature].History[0].Stage < GA }

// unknown returns the error for a name that no feature has.
func (g *Gates[F]) unknown(name string) error {
	nearest, least := "", len(name)/2+1
	names := []string{allAlpha, allBeta}
	for _, f := range g.features {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			nearest, least = n, d
		}
	}
	if nearest == "" {
		return fmt.Errorf("unknown feature %q", name)
	}
	return fmt.Errorf("unknown feature %q: did you mean %s?", name, nearest)
}

// Emulate makes the features of the program behave as in an older version: each has the stage that it had in that version. Call it before
// Lock, usually with the value of a flag: flag.Func("emulate", "...", gates.Emulate). It may come before or after the settings, which Lock
// checks. The last call counts. Overrides that are in force must be allowed in that version. If Emulate returns an error, it has changed
// nothing.
func (g *Gates[F]) Emulate(older string) error {
	v, err := parseVersion(older)
	if err != nil {
		return fmt.Errorf("featuregate: emulate: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.locked {
		return fmt.Errorf("featuregate: emulate version %s: the gates are locked", older)
	}
	if v.compare(g.program) > 0 {
		return fmt.Errorf("featuregate: emulate version %s: it is newer than this program, which is version %v", older, g.program)
	}
	if err := g.allowed(v, g.overridden()); err != nil {
		return fmt.Errorf("featuregate: emulate version %s: %w", older, err)
	}
	g.version = v
	g.update()
	return nil
}

// Lock ends the time of settings: after it, Emulate and every non-empty setting return errors. Lock logs which features are on, and a
// warning for each feature that is set, by its name or with all features of its stage. A second call does nothing.
//
// Call Lock when all inputs are known: it checks the settings against the version that is in force. If a setting is not allowed in that
// version, or a feature is on without another that it requires, Lock returns an error that names each, and locks nothing.
func (g *Gates[F]) Lock() error {
	g.mu.Lock()
	locked := g.locked
	err := problems.Join(g.refused(), g.missing(g.version, g.now()))
	g.locked = locked || err == nil
	g.mu.Unlock()
	if locked {
		return nil
	}
	if err != nil {
		return fmt.Errorf("featuregate: %w", err)
	}
	for s := range g.All() {
		if s.Set {
			g.logger.LogAttrs(context.Background(), slog.LevelWarn, "feature gate is set: "+warning(s),
				slog.String("feature", s.Name), slog.Bool("enabled", s.Enabled), slog.String("stage", s.Stage.String()))
		}
	}
	g.logger.LogAttrs(context.Background(), slog.LevelInfo, "feature gates",
		slog.String("version", g.Version()), slog.Any("features", g))
	return nil
}

// warning returns why a setting may surprise its author later.
func warning(s Status) string {
	switch s.Stage {
	case Alpha:
		return "this feature may change or be removed in any version"
	case Beta:
		return "this setting loses its effect when the feature is generally available"
	case GA:
		return "this setting has no effect, because the feature is always on"
	default:
		return "this feature is deprecated and will be removed"
	}
}

// isName reports whether a name needs no quotes in a flag: letters and digits, a letter first.
func isName(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// distance returns the number of characters to insert, delete or replace to turn a into b (Levenshtein, 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
