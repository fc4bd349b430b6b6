package cachewrite

import (
	"context"
	"maps"
	"slices"
	"sort"

	"example.com/cachewrite/edit"
	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	kcache "k8s.io/client-go/tools/cache"
)

type Site struct {
	Size  int
	Hosts []string
	Spec  *Spec
}

type Spec struct {
	Size   int
	Labels map[string]string
}

func (s *Spec) grow() { s.Size++ }

func (s *Site) rename() { s.Spec = nil } // of a copy

func wrong(sites *store.Informer[Site], index *cache.Index[string, string, *Spec], specs *informer.Informer[string, *Spec]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, _ := sites.Get(key)
		site.Labels["a"] = "b"        // want `this assignment changes an object that the cache shares: .*chapter 3`
		site.Value.Spec.Size = 2      // want `this assignment changes`
		site.Value.Spec.Size++        // want `this assignment changes`
		site.Value.Hosts[0] = "a"     // want `this assignment changes`
		delete(site.Labels, "a")      // want `delete changes`
		slices.Sort(site.Value.Hosts) // want `slices.Sort changes`
		edit.Label(site.Labels, "a")  // want `edit.Label changes`
		site.Value.Spec.grow()        // want `Spec.grow changes`
		set(site.Value.Spec)          // want `cachewrite.set changes`
		spec, ok := specs.Get(key)
		if ok {
			*spec = Spec{} // want `this assignment changes`
		}
		labels := site.Labels
		labels["x"] = "" // want `this assignment changes`
		for _, other := range sites.All() {
			other.Value.Spec.Size = 1 // want `this assignment changes`
		}
		for _, spec := range index.All("a") {
			spec.Labels["b"] = "" // want `this assignment changes`
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func set(s *Spec) { deeper(s) }

func deeper(s *Spec) { s.Labels = nil }

func handles() {
	_ = informer.Handler[string, *Spec]{
		OnAdd:    func(s *Spec, _ bool) { s.Size = 1 },                         // want `this assignment changes`
		OnDelete: func(d cache.Tombstone[string, *Spec]) { d.Object.Size = 0 }, // want `this assignment changes`
	}
	_ = kcache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		switch obj := obj.(type) {
		case *Spec:
			obj.Size = 1 // want `this assignment changes`
		}
		spec, _ := obj.(*Spec)
		spec.Size = 1 // want `this assignment changes`
	}}
}

type SpecLister interface {
	Get(name string) (*Spec, error)
	List() ([]*Spec, error)
}

func lists(lister SpecLister) {
	spec, _ := lister.Get("a")
	spec.Size = 1 // want `this assignment changes`
	all, _ := lister.List()
	sort.Slice(all, func(i, j int) bool { return all[i].Size < all[j].Size }) // the slice is new
	all[0] = nil
	for _, spec := range all {
		spec.Size = 1 // want `this assignment changes`
	}
	all[1].Size = 1 // want `this assignment changes`
}

func right(sites store.Store[Site], cached *store.Informer[Site], lister SpecLister) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, _ := cached.Get(key)
		site.Value.Size = 3 // of the copy
		site.Value.rename()
		site.Value.Spec = &Spec{}
		site.Value.Spec.Size = 1 // of the new one
		site.Labels = maps.Clone(site.Labels)
		site.Labels["a"] = "b"
		site.Value.Hosts = append(slices.Clone(site.Value.Hosts), "a")
		slices.Sort(site.Value.Hosts)
		spec := *site.Value.Spec
		spec.Size = 3
		stored, err := sites.Get(ctx, key)
		stored.Labels["a"] = "b" // what a store returns belongs to the caller
		return controller.Result{}, err
	}, controller.Config[string]{})
	spec, _ := lister.Get("a")
	spec = clone(spec)
	spec.Size = 1
	counts := make(map[string]int)
	for key, site := range cached.All() {
		counts[key] = site.Value.Size
	}
}

func clone(s *Spec) *Spec {
	c := *s
	return &c
}

// A new object has the map of an old one.
func embeds(sites *store.Informer[Site], stored store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, _ := sites.Get(key)
		site.Value.Hosts = slices.DeleteFunc(site.Value.Hosts, func(host string) bool { return host == "" }) // want `slices.DeleteFunc changes`
		copied := store.Object[Site]{Key: key, Labels: site.Labels, Finalizers: slices.Clone(site.Finalizers)}
		copied.Labels["a"] = "b" // want `this assignment changes`
		copied.Finalizers[0] = ""
		pod := &Pod{Meta: Meta{Labels: site.Labels, Notes: map[string]string{}}}
		pod.Labels["a"] = "b" // want `this assignment changes`
		pod.Notes["a"] = "b"
		pod.Labels = maps.Clone(site.Labels)
		pod.Labels["a"] = "b"
		_, err := stored.Create(ctx, copied)
		return controller.Result{}, err
	}, controller.Config[string]{})
}

type Pod struct{ Meta }

type Meta struct{ Labels, Notes map[string]string }
