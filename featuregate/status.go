package featuregate

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// Status is a snapshot of a feature.
type Status struct {
	Name        string
	Description string
	Stage       Stage
	Since       string // the version from which the feature is at this stage
	Enabled     bool
	Default     bool // its value without a setting
	Set         bool // whether it was set, by its name or with all features of its stage
}

// All yields the status of each feature of this version, by name. Features that are removed or newer are left out.
func (g *Gates[F]) All() iter.Seq[Status] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Status
	for i, f := range g.features {
		now, before := g.phase(F(i), g.version)
		if now.Stage == 0 || now.Stage == Removed {
			continue
		}
		_, one := g.settings[f.Name]
		_, stage := g.settings[allOf(now.Stage)]
		all = append(all, Status{
			Name: f.Name, Description: f.Description, Stage: now.Stage, Since: now.Since,
			Enabled: g.on[i].Load(), Default: defaultOf(now, before), Set: one || stage,
		})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return slices.Values(all)
}

// Version returns the version whose stages are in force: that of the program, or the emulated one.
func (g *Gates[F]) Version() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version.String()
}

// String returns the settings in the form that Set reads, by name. It implements flag.Value.
func (g *Gates[F]) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(g.settings)) {
		parts = append(parts, fmt.Sprintf("%s=%t", name, g.settings[name]))
	}
	return strings.Join(parts, ",")
}

// LogValue returns a group with the name of each feature, and whether it is on. It implements slog.LogValuer.
func (g *Gates[F]) LogValue() slog.Value {
	var attrs []slog.Attr
	for s := range g.All() {
		attrs = append(attrs, slog.Bool(s.Name, s.Enabled))
	}
	return slog.GroupValue(attrs...)
}

// Usage returns the help text of a flag: the form of a setting, and a line for each feature that can be set, in this version or while the
// program emulates an older one. Features that are newer, removed, or have always been on are left out.
func (g *Gates[F]) Usage() string {
	var b strings.Builder
	b.WriteString("turn features on and off, as in `Name=true,Other=false`. AllAlpha and AllBeta stand for all features of a stage.")
	for s := range g.All() {
		state := "default off"
		switch {
		case s.Stage == GA && !g.wasSettable(g.named(s.Name)):
			continue
		case s.Stage == GA:
			state = "always on; can be set while an older version is emulated"
		case s.Default:
			state = "default on"
		}
		fmt.Fprintf(&b, "\n%s (%v since %s, %s)", s.Name, s.Stage, s.Since, state)
		if s.Description != "" {
			b.WriteString(": " + s.Description)
		}
	}
	return b.String()
}
