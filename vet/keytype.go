package vet

import (
	"go/types"
	"strings"
)

func keytype(p *pass) {
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
			if what := ambiguous(key, ""); what != "" {
				p.report(id, "the key %s has %s, so one object can have two keys, which are reconciled concurrently: use a string, or a struct of strings and integers",
					types.TypeString(key, types.RelativeTo(p.Pkg)), what)
			}
		}
	}
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
