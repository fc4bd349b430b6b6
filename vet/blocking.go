package vet

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

func blocking(p *pass) {
	for _, f := range p.reached(reconcile, step) {
		for _, s := range append(p.blocks(f), p.callsWith(f, func(e *effects) string { return e.Blocks })...) {
			p.report(s.at, "%s occupies the worker of this reconcile, which then does nothing else%s", s.what, p.instead(s))
		}
	}
	for _, f := range p.reached(handler, filter) {
		for _, s := range append(p.blocks(f), p.callsWith(f, func(e *effects) string { return e.Blocks })...) {
			p.report(s.at, "%s in a handler delays all later events: add a key, and let the reconcile do it", s.what)
		}
		for _, s := range append(p.io(f), p.callsWith(f, func(e *effects) string { return e.IO })...) {
			p.report(s.at, "%s in a handler delays all later events, and nothing tries it again if it fails: add a key, and let the reconcile do it", s.what)
		}
	}
}

// instead says what else happens, and what to do instead of blocking.
func (p *pass) instead(s site) string {
	if call, ok := s.at.(*ast.CallExpr); ok {
		_, inside, _ := strings.Cut(s.what, "(") // of a function of another package
		switch n := p.callee(call); {
		case strings.HasPrefix(n.name, "Poll"), strings.HasPrefix(n.name, "WaitFor"), strings.Contains(inside, ".Poll"), strings.Contains(inside, ".WaitFor"):
			return ": return, and let an event or a delay bring the key back, or use expectations"
		case n.pkg == "net/http", n.pkg == "database/sql", n.pkg == "os/exec", n.pkg == "net":
			return ", and a stop waits for it: use the form that takes the context"
		}
	}
	return ", and a stop waits for it: return, and ask for the next reconcile"
}

// blocks returns the places in f that sleep, wait for something that the end of a context does not interrupt, or keep a worker waiting for
// another part of the program.
func (p *program) blocks(f *fn) (sites []site) {
	for _, call := range f.calls {
		if n := p.callee(call); !p.apart(call) && p.waits(f, n) && !p.ofPool(call, n) {
			sites = append(sites, site{call, n.String()})
		}
	}
	if p.startsGoroutines(f) { // and collects their results
		return sites
	}
	f.walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			if !p.interruptible(n) {
				sites = append(sites, site{n, "this select"})
			}
			return true
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !p.inSelect(n) && !p.isDone(n.X) {
				sites = append(sites, site{n, "this receive"})
			}
		}
		return true
	})
	return sites
}

func (p *program) waits(f *fn, n name) bool {
	switch n.pkg {
	case "time":
		return n.short() == "Sleep"
	case "sync":
		return n.short() == "Cond.Wait" || n.short() == "WaitGroup.Wait" && !p.startsGoroutines(f)
	case "net/http":
		return n.in("net/http", "Get", "Head", "Post", "PostForm", "Client.Get", "Client.Head", "Client.Post", "Client.PostForm") ||
			n.name == "NewRequest" && !p.givesContexts()
	case "net":
		return n.in("net", "Dial", "LookupHost", "LookupIP", "LookupAddr", "LookupCNAME", "LookupTXT", "LookupMX", "LookupNS", "LookupSRV")
	case "os/exec":
		return n.short() == "Command" && p.waitsForProcess(f)
	case "database/sql":
		return n.recv != "Rows" && n.recv != "Row" && (n.name == "Query" || n.name == "QueryRow" || n.name == "Exec" || n.name == "Begin" || n.name == "Ping" || n.name == "Prepare")
	case "k8s.io/apimachinery/pkg/util/wait":
		return strings.HasPrefix(n.name, "Poll")
	case "k8s.io/client-go/tools/cache":
		return strings.HasPrefix(n.name, "WaitFor")
	case module + "wait":
		return strings.HasPrefix(n.name, "Poll") || n.name == "Sleep"
	case module + "informer":
		return strings.HasPrefix(n.name, "WaitFor")
	case module + "controller":
		return n.short() == "Controller.WaitIdle" || n.short() == "Controller.WaitReconciled"
	}
	return false
}

// ofPool reports whether a call waits for the goroutines of an object, which has a WaitGroup for them.
func (p *program) ofPool(call *ast.CallExpr, n name) bool {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !n.in("sync", "WaitGroup.Wait") {
		return false
	}
	_, field := ast.Unparen(sel.X).(*ast.SelectorExpr)
	return field
}

// waitsForProcess reports whether f waits for the end of a process that it starts.
func (p *program) waitsForProcess(f *fn) bool {
	return slices.ContainsFunc(f.calls, func(call *ast.CallExpr) bool {
		return p.callee(call).in("os/exec", "Cmd.Run", "Cmd.Output", "Cmd.CombinedOutput", "Cmd.Wait")
	})
}

// givesContexts reports whether the package gives a context to requests that it has made without one.
func (p *program) givesContexts() bool {
	return slices.ContainsFunc(p.funcs, func(f *fn) bool {
		return slices.ContainsFunc(f.calls, func(call *ast.CallExpr) bool {
			return p.callee(call).in("net/http", "Request.WithContext", "Request.Clone")
		})
	})
}

// startsGoroutines reports whether f starts goroutines, itself or in one of the literals in it.
func (p *program) startsGoroutines(f *fn) bool {
	found := false
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			found = found || p.callee(n).name == "Go"
		}
		return !found
	})
	return found
}

// interruptible reports whether a select has a case that does not wait, or one for the end of a context or for a time.
func (p *program) interruptible(s *ast.SelectStmt) bool {
	for _, clause := range s.Body.List {
		comm := clause.(*ast.CommClause).Comm
		if comm == nil {
			return true
		}
		done := false
		ast.Inspect(comm, func(n ast.Node) bool {
			if recv, ok := n.(*ast.UnaryExpr); ok && recv.Op == token.ARROW && p.isDone(recv.X) {
				done = true
			}
			return !done
		})
		if done {
			return true
		}
	}
	return false
}

// isDone reports whether a channel is the one that tells the end of a context.
func (p *program) isDone(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && p.callee(call).name == "Done"
}

func (p *program) inSelect(n ast.Node) bool {
	for m := p.parents[n]; m != nil; m = p.parents[m] {
		switch m.(type) {
		case *ast.CommClause:
			return true
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// io returns the places in f that read or write files, rows, objects of a store, or send requests.
func (p *program) io(f *fn) (sites []site) {
	for _, call := range f.calls {
		n := p.callee(call)
		if !p.apart(call) && (p.isWrite(call) || p.asksAPIServer(call) || isIO(n)) {
			sites = append(sites, site{call, n.String()})
		}
	}
	return sites
}

func isIO(n name) bool {
	switch {
	case n.pkg == "os":
		return n.in("os", "ReadFile", "WriteFile", "Open", "Create", "OpenFile", "Remove", "RemoveAll", "Rename", "Mkdir", "MkdirAll", "ReadDir")
	case n.pkg == "net/http":
		return n.in("net/http", "Get", "Head", "Post", "PostForm", "Client.Get", "Client.Head", "Client.Post", "Client.PostForm", "Client.Do")
	case n.pkg == "database/sql":
		return (n.recv == "DB" || n.recv == "Tx" || n.recv == "Conn" || n.recv == "Stmt") && n.name != "Close" && n.name != "Stats"
	case strings.HasPrefix(n.pkg, "github.com/jackc/pgx/v5"):
		return n.name == "Exec" || n.name == "Query" || n.name == "QueryRow" || n.name == "Begin" || n.name == "BeginTx" || n.name == "SendBatch" || n.name == "CopyFrom"
	case n.pkg == "os/exec":
		return n.in("os/exec", "Cmd.Run", "Cmd.Output", "Cmd.CombinedOutput")
	case n.pkg == module+"store":
		return n.recv == "Store" && (n.name == "Get" || n.name == "List" || n.name == "Select")
	}
	return false
}
