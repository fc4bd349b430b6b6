package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"

	"golang.org/x/tools/go/analysis"
)

// Analyzers returns the analyzers, in the order of the table. They share an analyzer that finds the reconciles of a package, so run those
// of one call together. Several goroutines may call Analyzers.
func Analyzers() []*analysis.Analyzer {
	shared := &analysis.Analyzer{
		Name:       "setpointprogram",
		Doc:        "find the reconciles, handlers, and mappers of a package, and what the functions that they call do",
		URL:        home,
		FactTypes:  []analysis.Fact{new(effects)},
		ResultType: reflect.TypeFor[*program](),
		Run:        func(p *analysis.Pass) (any, error) { return newProgram(p), nil },
	}
	var all []*analysis.Analyzer
	for _, c := range checks() {
		all = append(all, c.analyzer(shared))
	}
	return all
}

const home = "https://github.com/setpoint-go/setpoint/tree/main/vet"

// check is one analyzer.
type check struct {
	name    string
	doc     string // what it finds, in one line
	chapter int    // of Effective controllers
	run     func(*pass)
}

func checks() []check {
	return []check{
		{"leadercontext", "find a context without the leader that a reconcile hands to a call", 8, leadercontext},
		{"cachewrite", "find writes to objects that are shared with a cache", 3, cachewrite},
		{"swallowed", "find errors of a reconcile that are logged or dropped while it returns nil", 4, swallowed},
		{"blocking", "find reconciles that sleep or wait, and handlers that do I/O", 10, blocking},
		{"sharedstate", "find variables that concurrent reconciles write without a lock", 10, sharedstate},
		{"unguarded", "find SQL writes of a leader that are not guarded by its term", 8, unguarded},
		{"resultanderror", "find delays that are returned beside an error, and reconciles that spin", 4, resultanderror},
		{"keytype", "find key types of which two keys can mean one object", 1, keytype},
		{"expectation", "find expectations that are raised too late, or not lowered after a failure", 3, expectation},
		{"finalizer", "find cleanups that a deletion during a restart skips", 7, finalizer},
		{"nowdecides", "find deletions that are due at a time, without a requeue at that time", 7, nowdecides},
	}
}

// chapters are the names of the pages of Effective controllers.
var chapters = [...]string{
	1: "01-levels", 2: "02-sync", 3: "03-stale", 4: "04-failure", 5: "05-crash",
	6: "06-owners", 7: "07-deletion", 8: "08-leader", 9: "09-blast-radius", 10: "10-proof",
}

func (c check) page() string {
	return "https://github.com/setpoint-go/setpoint/blob/main/docs/effective/" + chapters[c.chapter] + ".md"
}

func (c check) analyzer(shared *analysis.Analyzer) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     c.name,
		Doc:      c.doc,
		URL:      c.page(),
		Requires: []*analysis.Analyzer{shared},
		Run: func(ap *analysis.Pass) (any, error) {
			c.run(&pass{
				Pass: ap, program: ap.ResultOf[shared].(*program), check: c,
				reported: make(map[token.Pos]bool), reportedEffects: make(map[string]bool),
			})
			return nil, nil
		},
	}
}

// pass is one analyzer at work on one package.
type pass struct {
	*analysis.Pass
	*program

	check           check
	reported        map[token.Pos]bool
	reportedEffects map[string]bool // those of other packages: see callsWith
}

// report reports a sentence that says what will happen, once for each place, unless a comment suppresses it.
func (p *pass) report(at ast.Node, format string, args ...any) {
	if p.reported[at.Pos()] || p.ignored(at.Pos(), p.check.name) {
		return
	}
	p.reported[at.Pos()] = true
	p.Report(analysis.Diagnostic{
		Pos:     at.Pos(),
		End:     at.End(),
		Message: fmt.Sprintf(format, args...) + fmt.Sprintf(" (Effective controllers, chapter %d)", p.check.chapter),
		URL:     p.check.page(),
	})
}
