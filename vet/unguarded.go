package vet

import (
	"go/ast"
	"strings"
)

func unguarded(p *pass) {
	if !p.elected() {
		return
	}
	seen := make(map[*fn]bool)
	var visit func(*fn)
	visit = func(f *fn) {
		if seen[f] || p.guarded(f) {
			return
		}
		seen[f] = true
		for _, s := range append(p.sqlWrites(f), p.callsWith(f, func(e *effects) string { return e.SQL })...) {
			p.report(s.at, "%s writes without a check of the term, so a former leader that was suspended still writes: use Guard or Transact", s.what)
		}
		for _, next := range p.next(f) {
			visit(next)
		}
	}
	for _, f := range p.funcs {
		if f.role == reconcile {
			visit(f)
		}
		for _, s := range p.callsWith(f, func(e *effects) string { return e.Unguarded }) {
			p.report(s.at, "the controller of %s writes without a check of the term, so a former leader that was suspended still writes: use Guard or Transact", s.what)
		}
	}
}

// elected reports whether the controllers of this package run under an election, as far as the package tells.
func (p *program) elected() bool {
	for _, f := range p.funcs {
		for _, call := range f.calls {
			if p.callee(call).of("leaderelect", "FromContext") {
				return true
			}
		}
		elected := false
		f.walk(func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && isType(p.info.TypeOf(lit), module+"manager", "Config") {
				for _, name := range []string{"Election", "Shards"} {
					value := field(lit, name)
					elected = elected || value != nil && !p.isNil(value)
				}
			}
			return !elected
		})
		if elected {
			return true
		}
	}
	return false
}

// guarded reports whether f runs in a transaction that checks the term: it calls Guard, or stands in a call of Transact or of a Guard.
func (p *program) guarded(f *fn) bool {
	for g := f; g != nil; g = g.outer {
		for _, call := range g.calls {
			if n := p.callee(call); n.name == "Guard" && strings.HasPrefix(n.pkg, module) {
				return true
			}
		}
		if call, ok := p.parents[g.node].(*ast.CallExpr); ok {
			n := p.callee(call)
			if n.name == "Transact" || n.of("leaderelect/fence", "Guard.Do", "Guard.DoUntilStale") {
				return true
			}
		}
	}
	return false
}

// sqlWrites returns the calls in f that write by database/sql or pgx, unless f is guarded.
func (p *program) sqlWrites(f *fn) (sites []site) {
	if p.guarded(f) {
		return nil
	}
	for _, call := range f.calls {
		n := p.callee(call)
		sql := n.pkg == "database/sql" && (n.recv == "DB" || n.recv == "Tx" || n.recv == "Conn")
		pgx := strings.HasPrefix(n.pkg, "github.com/jackc/pgx/v5")
		switch {
		case !sql && !pgx:
		case n.name == "SendBatch" || n.name == "CopyFrom",
			(n.name == "Exec" || n.name == "ExecContext") && p.changes(call, true),
			strings.HasPrefix(n.name, "Query") && p.changes(call, false):
			sites = append(sites, site{call, n.String()})
		}
	}
	return sites
}

// changes reports whether the statement of a call changes rows; unknown is the answer if its text is not known.
func (p *program) changes(call *ast.CallExpr, unknown bool) bool {
	for _, arg := range call.Args {
		if text, ok := p.text(arg); ok {
			return changing(text)
		}
	}
	return unknown
}

func changing(sql string) bool {
	sql = strings.ToLower(sql)
	for _, verb := range []string{"insert ", "update ", "delete ", "merge ", "truncate "} {
		if first := strings.TrimSpace(sql); strings.HasPrefix(first, verb) || strings.HasPrefix(first, "with ") && strings.Contains(first, verb) {
			return true
		}
	}
	return false
}
