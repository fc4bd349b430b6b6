package debug

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

// objectView is an object of a cache.
type objectView struct {
	Informer   string            `json:"informer"`
	Kind       string            `json:"kind,omitempty"` // this and the following fields are for objects of a store
	Key        string            `json:"key,omitempty"`
	UID        string            `json:"uid,omitempty"`
	Version    uint64            `json:"version,omitempty"`
	Generation int64             `json:"generation,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Finalizers []string          `json:"finalizers,omitempty"`
	Created    time.Time         `json:"created,omitzero"`
	Deleting   time.Time         `json:"deleting,omitzero"`
	Value      json.RawMessage   `json:"value,omitempty"`
	Note       string            `json:"note,omitempty"` // why there is no value
}

// mostValue is the largest value that a page shows, in bytes of JSON.
const mostValue = 64 << 10

// cached is the cache of an informer, without its type parameters.
type cached struct {
	name  string
	value any
}

// cachesOf returns the caches of the informers of a controller.
func cachesOf(c aController) (caches []cached) {
	for _, s := range c.Informers() {
		caches = append(caches, cached{s.Name(), s})
	}
	return caches
}

// all iterates over the keys and objects of the cache. It yields nothing if s is not an informer.
func (s cached) all() iter.Seq2[reflect.Value, reflect.Value] { return s.pairs("All") }

// unread returns why the cache lacks the current state of the object with a key, or nil.
func (s cached) unread(key string) error {
	for k, err := range s.pairs("AllUnread") {
		if fmt.Sprint(k.Interface()) == key {
			return err.Interface().(error)
		}
	}
	return nil
}

// unreadText is a sentence that says why the cache lacks the current state of the object with a key, or "".
func (s cached) unreadText(key string) string {
	if err := s.unread(key); err != nil {
		return fmt.Sprintf("The cache %s cannot read its object: %v", s.name, err)
	}
	return ""
}

// pairs returns what a method yields. It yields nothing if there is no such method.
func (s cached) pairs(method string) iter.Seq2[reflect.Value, reflect.Value] {
	all := reflect.ValueOf(s.value).MethodByName(method)
	if !all.IsValid() || all.Type().NumIn() != 0 || all.Type().NumOut() != 1 || !all.Type().Out(0).CanSeq2() {
		return func(func(reflect.Value, reflect.Value) bool) {}
	}
	return all.Call(nil)[0].Seq2()
}

// get returns the object whose key has the given text.
func (s cached) get(text string) (obj any, ok bool) {
	get := reflect.ValueOf(s.value).MethodByName("Get")
	if !get.IsValid() || get.Type().NumIn() != 1 || get.Type().NumOut() != 2 {
		return nil, false
	}
	key := reflect.New(get.Type().In(0)).Elem()
	if key.Kind() == reflect.String {
		key.SetString(text)
	}
	if fmt.Sprint(key.Interface()) != text {
		found := false
		for k := range s.all() {
			if fmt.Sprint(k.Interface()) == text {
				key, found = k, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	out := get.Call([]reflect.Value{key})
	return out[0].Interface(), out[1].Bool()
}

// objectView returns the view of an object.
func (h *Handler) objectView(s cached, obj any) (v objectView) {
	v.Informer = s.name
	if o, ok := storedOf(reflect.ValueOf(obj)); ok {
		v.Kind, v.Key, v.UID, v.Version, v.Generation = o.Kind, o.Key, o.UID, uint64(o.Version), o.Generation
		v.Created, v.Deleting = o.Created, o.Deleting
	}
	defer func() {
		if p := recover(); p != nil {
			v.Note = fmt.Sprintf("The object cannot be shown: panic: %v", p)
		}
	}()
	if h.cfg.Redact != nil {
		if obj = h.cfg.Redact(obj); obj == nil {
			v.Note = "Config.Redact hides this object."
			return v
		}
	}
	if o, ok := storedOf(reflect.ValueOf(obj)); ok {
		v.Labels, v.Finalizers = o.Labels, o.Finalizers
		obj = reflect.ValueOf(obj).FieldByName("Value").Interface()
	}
	v.Value, v.Note = encode(obj)
	return v
}

// encode returns an object as JSON, or the reason why it cannot be shown.
func encode(obj any) (value json.RawMessage, note string) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(obj); err != nil {
		return nil, fmt.Sprintf("The object cannot be shown: %v", err)
	}
	if b.Len() > mostValue {
		return nil, fmt.Sprintf("The object is too large to be shown: %s bytes.", count(b.Len()))
	}
	return bytes.TrimSpace(b.Bytes()), ""
}

// Indented returns the value as indented JSON.
func (o objectView) Indented() string {
	var b bytes.Buffer
	if json.Indent(&b, o.Value, "", "  ") != nil {
		return string(o.Value)
	}
	return b.String()
}

// concrete returns the value of v, if v is an interface.
func concrete(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// isStored reports whether v is a store.Object.
func isStored(v reflect.Value) bool {
	if v.Kind() != reflect.Struct {
		return false
	}
	_, ok := v.Interface().(interface{ Ref() store.Ref })
	_, value := v.Type().FieldByName("Value")
	_, owners := v.Type().FieldByName("Owners")
	return ok && value && owners && v.Type().PkgPath() == reflect.TypeFor[store.Ref]().PkgPath()
}

// storedOf returns the metadata of v, if it is a store.Object.
func storedOf(v reflect.Value) (o store.Object[struct{}], ok bool) {
	if !isStored(v) {
		return o, false
	}
	to := reflect.ValueOf(&o).Elem()
	for i := range to.NumField() {
		if name := to.Type().Field(i).Name; name != "Value" {
			to.Field(i).Set(v.FieldByName(name))
		}
	}
	return o, true
}

// treeView is an object in the tree of owners and children.
type treeView struct {
	Kind       string     `json:"kind"`
	Key        string     `json:"key"`
	UID        string     `json:"uid,omitempty"`
	Link       string     `json:"link,omitempty"`
	Self       bool       `json:"self,omitempty"`
	Controls   bool       `json:"controls,omitempty"` // the node above it is its controller
	Missing    bool       `json:"missing,omitempty"`  // no cache has it
	Deleting   bool       `json:"deleting,omitempty"`
	Generation int64      `json:"generation,omitempty"`
	State      string     `json:"state,omitempty"` // of its key in the queue of its controller; empty if it is idle, or has no controller
	Children   []treeView `json:"children,omitempty"`
	More       int        `json:"more,omitempty"` // number of children left out

	queue    string // of its controller
	failures int
	reason   string // the last one
}

// The largest tree: the nodes, the children of a node, and the levels above and below the object.
const (
	mostNodes    = 200
	mostChildren = 50
	mostDepth    = 6
)

// node is an object of a cache.
type node struct {
	store.Object[struct{}]
	link     string
	queue    string // of its controller, or ""
	children []*node
}

// treeOf returns the owners of each of refs, with its siblings left out, and its children.
func treeOf(ps parts, refs []store.Ref) []treeView {
	trees := []treeView{}
	if len(refs) == 0 {
		return trees
	}
	nodes, left := nodesOf(ps), mostNodes
	for _, ref := range refs {
		self := nodes[ref]
		if self == nil || len(self.Owners) == 0 && len(self.children) == 0 {
			continue
		}
		below := viewBelow(self, mostDepth, &left)
		below.Self = true
		trees = append(trees, viewAbove(nodes, self.Owners, below, mostDepth, &left)...)
	}
	each(ps, func(name string, c aController) { addStates(trees, name, c.Inspect()) })
	return trees
}

// addStates adds the states of keys to those nodes that a controller reconciles. It asks once for all keys that are not idle, because
// the time to find one key may depend on their number.
func addStates(trees []treeView, queue string, in controller.Inspector) {
	at := make(map[string][]*treeView)
	var visit func(views []treeView)
	visit = func(views []treeView) {
		for i := range views {
			if v := &views[i]; v.queue == queue {
				at[v.Key] = append(at[v.Key], v)
			}
			visit(views[i].Children)
		}
	}
	visit(trees)
	if len(at) == 0 {
		return
	}
	for k := range in.Keys() {
		for _, v := range at[k.Key] {
			seen := viewOf(queue, k)
			v.State, v.failures, v.reason = seen.State, seen.Failures, seen.Last()
		}
	}
}

// nodesOf returns the objects of all stores that an informer mirrors.
func nodesOf(ps parts) map[store.Ref]*node {
	nodes := make(map[store.Ref]*node)
	for _, p := range ps.all {
		if _, ok := p.value.(anInformer); !ok {
			continue
		}
		queue := ps.queueOf(p.value)
		for _, v := range (cached{p.name, p.value}).all() {
			o, ok := storedOf(concrete(v))
			if !ok {
				break // the others are not stored either
			}
			if nodes[o.Ref()] != nil {
				continue
			}
			link := informerLink(p.name, o.Key)
			if queue != "" {
				link = keyLink(queue, o.Key)
			}
			nodes[o.Ref()] = &node{Object: o, link: link, queue: queue}
		}
	}
	for _, n := range nodes {
		for _, by := range n.Owners {
			if owner := nodes[by.Ref]; owner != nil {
				owner.children = append(owner.children, n)
			}
		}
	}
	for _, n := range nodes {
		slices.SortFunc(n.children, func(a, b *node) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	}
	return nodes
}

// queueOf returns the controller whose first informer is s: the controller that reconciles its objects.
func (ps parts) queueOf(s any) (name string) {
	each(ps, func(n string, c aController) {
		if informers := c.Informers(); name == "" && len(informers) > 0 && same(informers[0], s) {
			name = n
		}
	})
	return name
}

// viewBelow returns n and the objects that it owns, until the limit of nodes is reached.
func viewBelow(n *node, depth int, left *int) treeView {
	v := viewNode(n)
	*left--
	for i, child := range n.children {
		if i == mostChildren || depth == 0 || *left <= 0 {
			v.More = len(n.children) - i
			break
		}
		below := viewBelow(child, depth-1, left)
		below.Controls = slices.ContainsFunc(child.Owners, func(by store.OwnerRef) bool { return by.Ref == n.Ref() && by.Controller })
		v.Children = append(v.Children, below)
	}
	return v
}

// viewAbove returns the owner of below, with below as its only child.
func viewAbove(nodes map[store.Ref]*node, owners []store.OwnerRef, below treeView, depth int, left *int) (views []treeView) {
	if len(owners) == 0 || depth == 0 || *left <= 0 {
		return []treeView{below}
	}
	for _, by := range owners {
		*left--
		child := below
		child.Controls = by.Controller
		above := treeView{Kind: by.Kind, Key: by.Key, UID: by.UID, Missing: true}
		var next []store.OwnerRef
		if n := nodes[by.Ref]; n != nil {
			above, next = viewNode(n), n.Owners
		}
		above.Children = []treeView{child}
		views = append(views, viewAbove(nodes, next, above, depth-1, left)...)
	}
	return views
}

func viewNode(n *node) treeView {
	return treeView{
		Kind: n.Kind, Key: n.Key, UID: n.UID, Link: n.link, Generation: n.Generation, Deleting: !n.Deleting.IsZero(), queue: n.queue,
	}
}

// mostInLink is the maximum length of a key in a link. A longer key is named by its digest, because URLs are limited.
const mostInLink = 1000

// digest names a key that is too long for a link.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strconv.Itoa(len(key)) + "-" + hex.EncodeToString(sum[:12])
}

// lookUp returns the key with a digest, of a controller or of its caches.
func lookUp(c aController, caches []cached, id string) (key string, ok bool) {
	if c != nil {
		for k := range c.Inspect().Keys() {
			if len(k.Key) > mostInLink && digest(k.Key) == id {
				return k.Key, true
			}
		}
	}
	for _, s := range caches {
		for k := range s.all() {
			if text := fmt.Sprint(k.Interface()); len(text) > mostInLink && digest(text) == id {
				return text, true
			}
		}
	}
	return "", false
}
