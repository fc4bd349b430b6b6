package vet

import (
	"go/token"
	"slices"
	"strings"
)

// directive begins a comment that suppresses findings: "//setpoint:ignore swallowed -- the lease expires anyway". It names one or more
// analyzers, with commas in between, and a reason. It applies to its own line and to the next one.
const directive = "//setpoint:ignore "

// line is a line of a file.
type line struct {
	file string
	n    int
}

// suppressions returns the names of the analyzers that comments suppress on each line.
func (p *program) suppressions() map[line][]string {
	found := make(map[line][]string)
	for _, file := range p.pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				rest, ok := strings.CutPrefix(comment.Text, directive)
				names, reason, explained := strings.Cut(rest, "--")
				if !ok || !explained || strings.TrimSpace(reason) == "" {
					continue
				}
				at := p.pass.Fset.Position(comment.Pos())
				for name := range strings.SplitSeq(names, ",") {
					for _, n := range []int{at.Line, at.Line + 1} {
						found[line{at.Filename, n}] = append(found[line{at.Filename, n}], strings.TrimSpace(name))
					}
				}
			}
		}
	}
	return found
}

// ignored reports whether a comment suppresses the findings of an analyzer at a place.
func (p *program) ignored(pos token.Pos, analyzer string) bool {
	at := p.pass.Fset.Position(pos)
	return slices.Contains(p.suppressed[line{at.Filename, at.Line}], analyzer)
}
