package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

func keytype(p *pass) {
	keys := make(map[types.Object]bool)
	for _, file := range p.files {
		for id, instance := range p.info.Instances {
			if id.Pos() < file.FileStart || id.Pos() >= file.FileEnd {
				continue
			}
			f, ok := p.info.Uses[id].(*types.Func)
			if !ok || !hasKeys(nameOf(f.Origin())) {
				continue
			}
			key := instance.TypeArgs.At(0)
			if empty, ok := key.Underlying().(*types.Interface); ok && empty.Empty() && nameOf(f).pkg == clientGoQueue {
				continue // what the queue has where it is not typed yet
			}
			if named, ok := types.Unalias(key).(*types.Named); ok {
				keys[named.Obj()] = true
			}
			if what := ambiguous(key, ""); what != "" {
				p.report(id, "the key %s has %s, so one object can have two keys, which are reconciled concurrently: use a string, or a struct of strings and integers",
					types.TypeString(key, types.RelativeTo(p.Pkg)), what)
			}
		}
	}
	p.verbs(keys)
}

// verbs finds keys that say what to do: literals of the types that have several verbs of changes in a field, as constants. A constant kind of
// object is none.
func (p *pass) verbs(keys map[types.Object]bool) {
	values := make(map[types.Object][]string) // of a field, in the order of the source
	at := make(map[types.Object]ast.Node)     // the first literal with a verb
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			named, ok := types.Unalias(p.info.TypeOf(lit)).(*types.Named)
			if !ok || !keys[named.Obj()] {
				return true
			}
			fields, ok := named.Underlying().(*types.Struct)
			if !ok {
				return true
			}
			for i, elt := range lit.Elts {
				var field types.Object
				if pair, ok := elt.(*ast.KeyValueExpr); ok {
					field, elt = p.info.Uses[pair.Key.(*ast.Ident)], pair.Value
				} else {
					field = fields.Field(i)
				}
				word := p.word(elt)
				if word == "" || slices.Contains(values[field], word) {
					continue
				}
				values[field] = append(values[field], word)
				if at[field] == nil && isVerb(word) {
					at[field] = lit
				}
			}
			return true
		})
	}
	for field, lit := range at {
		if all := slices.DeleteFunc(values[field], func(word string) bool { return !isVerb(word) }); len(all) > 1 {
			p.report(lit, "the key says what to do (%s), so one object has several keys, and the work of an event that is missed is never done: use the name of the object, and compare in the reconcile",
				strings.Join(all, ", "))
		}
	}
}

// word returns the value of a constant string, or the name of another constant.
func (p *pass) word(e ast.Expr) string {
	if text, ok := p.text(e); ok {
		return text
	}
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		if c, ok := p.info.Uses[id].(*types.Const); ok && c.Parent() != types.Universe {
			return c.Name()
		}
	}
	return ""
}

// isVerb reports whether a word names a change of an object: "delete", "EventDeleted".
func isVerb(word string) bool {
	word = strings.ToLower(word)
	for _, verb := range []string{"create", "add", "update", "modify", "delete", "remove"} {
		stem := strings.TrimSuffix(strings.TrimSuffix(verb, "e"), "y")
		for _, ending := range []string{verb, stem + "ed", stem + "ied", stem + "ing"} {
			if word == ending || strings.HasPrefix(word, "event") && strings.HasSuffix(word, ending) || strings.HasPrefix(word, "op") && strings.HasSuffix(word, ending) {
				return true
			}
		}
	}
	return false
}

const clientGoQueue = "k8s.io/client-go/util/workqueue"

// hasKeys reports whether the first type argument of a function is a type of keys.
func hasKeys(n name) bool {
	return n.of("controller", "New") || n.of("workqueue", "New") || n.of("informer", "New") || n.of("cache", "NewIndexer") ||
		n.pkg == module+"expectations" && strings.HasPrefix(n.name, "New") ||
		n.pkg == clientGoQueue && strings.HasPrefix(n.name, "NewTyped") && !strings.HasSuffix(n.name, "RateLimiter") ||
		n.pkg == controllerRuntime+"builder" && strings.HasPrefix(n.name, "Typed") ||
		n.pkg == controllerRuntime+"controller" && strings.HasPrefix(n.name, "NewTyped")
}

// ambiguous says what makes two values of a type differ although they mean the same, or "".
func ambiguous(t types.Type, at string) string {
	in := func(what string) string {
		if at == "" {
			return what
		}
		return what + " in its field " + at
	}
	if pkg, name := typeName(t); pkg == "time" && name == "Time" {
		return in("a time")
	} else if pkg == "net/netip" || pkg == "unique" {
		return "" // whose pointers are unique
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return in("a pointer")
	case *types.Chan:
		return in("a channel")
	case *types.Interface:
		if _, param := t.(*types.TypeParam); param {
			return ""
		}
		return in("an interface")
	case *types.Basic:
		if u.Info()&(types.IsFloat|types.IsComplex) != 0 {
			return in("a float")
		}
	case *types.Array:
		return ambiguous(u.Elem(), at)
	case *types.Struct:
		for v := range u.Fields() {
			name := v.Name()
			if at != "" {
				name = at + "." + name
			}
			if what := ambiguous(v.Type(), name); what != "" {
				return what
			}
		}
	}
	return ""
}
