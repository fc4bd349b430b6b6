package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"math/bits"
	"slices"
	"strings"
)

func cachewrite(p *pass) {
	for _, f := range p.funcs {
		if f.outer != nil {
			continue // its literals are part of it
		}
		for _, s := range p.writesOf(f).cached {
			if call, ok := s.at.(*ast.CallExpr); ok && p.own(call) != nil || ok && p.imported(call) != nil { // one mistake, however often it is called
				if p.reportedEffects[s.what] {
					continue
				}
				p.reportedEffects[s.what] = !p.ignored(s.at.Pos(), p.check.name)
			}
			p.report(s.at, "%s changes an object that the cache shares: all readers see the change, and the next comparison does not; write to a copy", s.what)
		}
	}
}

// labels says whose memory a value refers to: one bit for each parameter of a function, one for a cache.
type labels uint64

const (
	cached     labels = 1 << 63 // memory of a cache
	listed     labels = 1 << 62 // a new slice, whose elements are memory of a cache
	parameters labels = 1<<62 - 1
)

// writes are the writes of a function that others may see.
type writes struct {
	params uint64 // the parameters through which it writes: see effects.Writes
	cached []site // writes to objects of a cache
}

// writesOf follows the values of a function in the order of the source. A variable that gets another value loses its labels, on every
// path: a write that is not found is better than a false alarm.
func (p *program) writesOf(f *fn) *writes {
	if f.writes != nil {
		return f.writes
	}
	f.writes = new(writes) // what a cycle sees
	t := &tracer{program: p, vars: make(map[types.Object]labels), fields: make(map[string]labels), found: f.writes}
	bit := 0
	label := func(v *types.Var) {
		if p.holdsRefs(v.Type()) && bit < 62 {
			t.vars[v] = labels(1) << bit
			if f.role == handler || f.role == filter {
				t.vars[v] = cached
			}
		}
		bit++
	}
	if recv := f.sig.Recv(); recv != nil {
		label(recv)
		if f.role != 0 {
			t.vars[recv] &^= cached
		}
	}
	for v := range f.sig.Params().Variables() {
		label(v)
	}
	ast.Inspect(f.body, t.visit)
	return f.writes
}

// tracer follows the values in one function.
type tracer struct {
	*program

	vars   map[types.Object]labels
	fields map[string]labels // fields of local copies that got another value, by the text of the expression
	found  *writes
}

func (t *tracer) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		if f := t.byNode[n]; f != nil && (f.role == handler || f.role == filter) {
			for v := range f.sig.Params().Variables() {
				if t.holdsRefs(v.Type()) {
					t.vars[v] = cached
				}
			}
		}
	case *ast.AssignStmt:
		for _, rhs := range n.Rhs { // with the values from before
			ast.Inspect(rhs, t.visit)
		}
		t.assign(n)
		for _, lhs := range n.Lhs {
			ast.Inspect(lhs, t.visit)
		}
		return false
	case *ast.ValueSpec:
		for i, id := range n.Names {
			if i < len(n.Values) {
				t.set(id, t.value(n.Values[i]))
			}
		}
	case *ast.IncDecStmt:
		t.write(n.X, t.location(n.X), "this assignment")
	case *ast.RangeStmt:
		t.iterate(n)
	case *ast.TypeSwitchStmt:
		t.typeSwitch(n)
	case *ast.CallExpr:
		t.call(n)
	}
	return true
}

func (t *tracer) assign(n *ast.AssignStmt) {
	var values []labels
	for _, rhs := range n.Rhs {
		values = append(values, t.value(rhs))
	}
	for i, lhs := range n.Lhs {
		v := values[0]
		if len(n.Rhs) == len(n.Lhs) {
			v = values[i]
		} else if i > 0 {
			v = 0 // ok, or an error
		}
		if id, ok := ast.Unparen(lhs).(*ast.Ident); ok {
			t.set(id, v)
			if len(n.Rhs) == len(n.Lhs) {
				t.fieldsOf(id.Name, n.Rhs[i])
			}
			continue
		}
		where := t.location(lhs)
		t.write(lhs, where, "this assignment")
		if where == 0 {
			t.fields[types.ExprString(lhs)] = v
		}
	}
}

// fieldsOf records the values of the fields of a new object, which a literal has.
func (t *tracer) fieldsOf(path string, value ast.Expr) {
	value = ast.Unparen(value)
	if address, ok := value.(*ast.UnaryExpr); ok && address.Op == token.AND {
		value = ast.Unparen(address.X)
	}
	lit, ok := value.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, elt := range lit.Elts {
		pair, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		field, ok := t.info.Uses[key].(*types.Var)
		if !ok || !field.IsField() {
			continue
		}
		if v := t.value(pair.Value); v != 0 {
			t.fields[path+"."+key.Name] = v
		}
		t.fieldsOf(path+"."+key.Name, pair.Value)
		if field.Embedded() {
			t.fieldsOf(path, pair.Value)
		}
	}
}

func (t *tracer) set(id *ast.Ident, v labels) {
	obj := t.info.ObjectOf(id)
	if obj == nil {
		return
	}
	if !t.holdsRefs(obj.Type()) {
		v = 0
	}
	t.vars[obj] = v
	for text := range t.fields {
		if strings.HasPrefix(text, id.Name+".") {
			delete(t.fields, text)
		}
	}
}

// write records a write to memory with labels.
func (t *tracer) write(at ast.Node, to labels, what string) {
	t.found.params |= uint64(to & parameters)
	if to&cached != 0 {
		t.found.cached = append(t.found.cached, site{at, what})
	}
}

// location returns the labels of the memory that an expression names. It is 0 for a variable.
func (t *tracer) location(e ast.Expr) labels {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		sel := t.info.Selections[e]
		if sel == nil || sel.Kind() != types.FieldVal {
			return 0
		}
		if sel.Indirect() {
			return t.value(e.X)
		}
		return t.location(e.X)
	case *ast.IndexExpr:
		switch t.info.TypeOf(e.X).Underlying().(type) {
		case *types.Array:
			return t.location(e.X)
		case *types.Slice, *types.Map, *types.Pointer:
			return t.value(e.X) &^ listed
		}
	case *ast.StarExpr:
		return t.value(e.X)
	}
	return 0
}

// value returns the labels of the memory that the value of an expression refers to.
func (t *tracer) value(e ast.Expr) labels {
	if typ := t.info.TypeOf(e); typ == nil || !t.holdsRefs(typ) {
		return 0
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return t.vars[t.info.ObjectOf(e)]
	case *ast.SelectorExpr:
		if v, ok := t.fields[types.ExprString(e)]; ok {
			return v
		}
		if sel := t.info.Selections[e]; sel != nil && sel.Kind() == types.FieldVal {
			return t.value(e.X)
		}
	case *ast.IndexExpr:
		return elements(t.value(e.X))
	case *ast.SliceExpr:
		return t.value(e.X)
	case *ast.StarExpr:
		return t.value(e.X)
	case *ast.TypeAssertExpr:
		return t.value(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			if _, ok := ast.Unparen(e.X).(*ast.CompositeLit); !ok {
				return t.location(e.X)
			}
		}
	case *ast.CallExpr:
		return t.result(e)
	}
	return 0
}

// elements returns the labels of the elements of a slice or a map.
func elements(v labels) labels {
	if v&listed != 0 {
		v = v&^listed | cached
	}
	return v
}

// result returns the labels of the result of a call. The result of a function that is not known is new.
func (t *tracer) result(call *ast.CallExpr) labels {
	if tv := t.info.Types[call.Fun]; tv.IsType() && len(call.Args) == 1 {
		return t.value(call.Args[0])
	}
	n := t.callee(call)
	recv := func() labels {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			return t.value(sel.X)
		}
		return 0
	}
	switch {
	case n.builtin("append") && len(call.Args) > 0:
		return t.value(call.Args[0])
	case n.of("informer", "Informer.Get"), n.of("cache", "Indexer.Get", "Snapshot.Get", "Reader.Get"), n.of("cache/mutation", "Cache.Get"):
		return cached
	case n.of("informer", "Informer.All", "Informer.InSlot"), n.of("cache", "Indexer.All", "Snapshot.All", "Index.All", "Reader.All"),
		n.of("cache/mutation", "Cache.All"):
		return listed
	case n.in("k8s.io/client-go/tools/cache", "Store.Get", "Store.GetByKey", "Indexer.Get", "Indexer.GetByKey"):
		return cached
	case n.in("k8s.io/client-go/tools/cache", "Store.List", "Indexer.List", "Indexer.ByIndex", "Indexer.Index"):
		return listed
	case strings.HasSuffix(n.recv, "Lister") && returnsPointers(t.info.TypeOf(call)):
		switch n.name {
		case "Get":
			return cached
		case "List":
			return listed
		}
	case slices.Contains([]string{"GetLabels", "GetAnnotations", "GetOwnerReferences", "GetFinalizers"}, n.name) && len(call.Args) == 0:
		return recv()
	}
	return 0
}

// returnsPointers reports whether the first of the results is a pointer, a slice of pointers, or any.
func returnsPointers(t types.Type) bool {
	if tuple, ok := t.(*types.Tuple); ok && tuple.Len() > 0 {
		t = tuple.At(0).Type()
	}
	if slice, ok := t.Underlying().(*types.Slice); ok {
		t = slice.Elem()
	}
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

func (t *tracer) iterate(n *ast.RangeStmt) {
	v := t.value(n.X)
	if _, ok := t.info.TypeOf(n.X).Underlying().(*types.Signature); ok { // an iterator, which holdsRefs says nothing about
		if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
			v = t.result(call)
		}
	}
	for _, e := range []ast.Expr{n.Key, n.Value} {
		if id, ok := e.(*ast.Ident); ok {
			t.set(id, elements(v))
		}
	}
}

// typeSwitch labels the variable that each clause of a type switch has.
func (t *tracer) typeSwitch(n *ast.TypeSwitchStmt) {
	assign, ok := n.Assign.(*ast.AssignStmt)
	if !ok {
		return
	}
	assert, ok := ast.Unparen(assign.Rhs[0]).(*ast.TypeAssertExpr)
	if !ok {
		return
	}
	v := t.value(assert.X)
	for _, clause := range n.Body.List {
		if obj := t.info.Implicits[clause]; obj != nil {
			t.vars[obj] = v
		}
	}
}

// call records what a call writes through its arguments.
func (t *tracer) call(call *ast.CallExpr) {
	n := t.callee(call)
	arg := func(i int) labels {
		if i < len(call.Args) {
			return t.value(call.Args[i])
		}
		return 0
	}
	switch {
	case n.builtin("delete", "clear", "copy"), n.in("maps", "Copy", "DeleteFunc", "Insert"),
		n.pkg == "slices" && (strings.HasPrefix(n.name, "Sort") || strings.HasPrefix(n.name, "Delete") || strings.HasPrefix(n.name, "Compact") || n.name == "Reverse"),
		n.pkg == "sort" && (strings.HasPrefix(n.name, "S") && !strings.HasPrefix(n.name, "Search")):
		t.write(call, arg(0)&^listed, n.String())
		return
	case n.in(controllerRuntime+"controller/controllerutil", "AddFinalizer", "RemoveFinalizer"):
		t.write(call, arg(0), n.String())
		return
	case n.in(controllerRuntime+"controller/controllerutil", "SetControllerReference", "SetOwnerReference"):
		t.write(call, arg(1), n.String())
		return
	case n.recv == "ObjectMeta" && strings.HasPrefix(n.name, "Set"):
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			t.write(call, t.location(sel.X)|t.pointer(sel.X), n.String())
		}
		return
	}
	var mask uint64
	if own := t.own(call); own != nil && own.obj != nil {
		mask = t.writesOf(own).params
	} else if e := t.imported(call); e != nil {
		mask = e.Writes
	}
	if mask == 0 {
		return
	}
	method := t.static(call) != nil && t.static(call).Signature().Recv() != nil
	for mask != 0 {
		i := bits.TrailingZeros64(mask)
		mask &^= 1 << i
		var v labels
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		switch {
		case method && i == 0 && ok:
			v = t.location(sel.X) | t.pointer(sel.X)
		case method:
			v = arg(i - 1)
		default:
			v = arg(i)
		}
		t.write(call, v&^listed, n.String())
	}
}

// pointer returns the labels of a value if it is a pointer or an interface.
func (t *tracer) pointer(e ast.Expr) labels {
	switch t.info.TypeOf(e).Underlying().(type) {
	case *types.Pointer, *types.Interface:
		return t.value(e)
	}
	return 0
}

// holdsRefs reports whether a value of a type can refer to memory that others see: through a pointer, a map, a slice, or an interface.
func (p *program) holdsRefs(t types.Type) bool {
	if have, ok := p.refs[t]; ok {
		return have
	}
	p.refs[t] = false // what a cycle sees
	holds := false
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Map, *types.Slice, *types.Interface:
		holds = !isContext(t) && !isError(t)
	case *types.Array:
		holds = p.holdsRefs(u.Elem())
	case *types.Tuple:
		holds = u.Len() > 0 && p.holdsRefs(u.At(0).Type())
	case *types.Struct:
		for v := range u.Fields() {
			holds = holds || p.holdsRefs(v.Type())
		}
		holds = holds && !isType(t, "time", "Time")
	case *types.Signature:
		holds = true
	}
	p.refs[t] = holds
	return holds
}
