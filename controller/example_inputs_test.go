package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// lamp is the object of these examples.
type lamp struct {
	Name, Room string
	Lux        int
}

// lamps drives a controller of lamps, or of their rooms, step by step.
type lamps struct {
	source     *informertest.Source[string, lamp]
	informer   *informer.Informer[string, lamp]
	controller *controller.Controller[string]
	steps      informer.Steps
}

// newLamps returns a source of lamps and its cache.
func newLamps() *lamps {
	l := &lamps{source: informertest.NewSource(func(l lamp) string { return l.Name })}
	l.informer = must(informer.New(l.source, l.source.Key, informer.Config{Name: "lamps"}))
	return l
}

// watch connects a controller with this input.
func (l *lamps) watch(input controller.Input[string]) {
	nothing := func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }
	l.controller = must(controller.New("lamps", nothing, controller.Config[string]{}, input))
	l.steps = must(l.informer.Steps(context.Background()))
	must(l.controller.Connect(context.Background()))
	l.look()
}

// look waits until the controller has handled all events, prints the keys that are due, and reconciles them.
func (l *lamps) look() {
	ctx := context.Background()
	for l.informer.Version() < l.source.Version() {
		l.steps.Read(ctx)
		l.steps.Apply()
	}
	for _, handler := range l.steps.Handlers() {
		for l.steps.Deliver(handler) {
		}
	}
	fmt.Println(l.controller.Ready())
	for _, lamp := range l.controller.Ready() {
		l.controller.Step(ctx, lamp)
	}
}

// Where chooses objects, When chooses updates, and Priority says whose turn it is.
func ExampleWatch() {
	l := newLamps()
	l.source.Put(lamp{"a", "hall", 3})
	l.source.Put(lamp{"b", "attic", 3})
	l.watch(controller.For(l.informer).
		Where(func(l lamp) bool { return l.Room == "hall" }).
		When(func(old, new lamp) bool { return old.Lux != new.Lux }).
		Priority(10))
	l.source.Put(lamp{"a", "hall", 4})
	l.source.Put(lamp{"b", "attic", 4}) // does not count
	l.look()
	l.source.Put(lamp{"b", "hall", 4}) // moves in
	l.look()
	l.source.Put(lamp{"a", "attic", 4}) // moves out
	l.look()
	// Output:
	// [a]
	// [a]
	// [b]
	// [a]
}

// When takes any function. Here a lamp that becomes darker is no news.
func ExampleWatch_When() {
	l := newLamps()
	l.watch(controller.For(l.informer).When(func(old, new lamp) bool { return new.Lux > old.Lux }))
	l.source.Put(lamp{"a", "hall", 4})
	l.look()
	l.source.Put(lamp{"a", "hall", 3})
	l.look()
	l.source.Put(lamp{"a", "hall", 5})
	l.look()
	// Output:
	// []
	// [a]
	// []
	// [a]
}

// The keys of this controller are rooms. A lamp that is moved concerns two of them.
func ExampleWatches() {
	l := newLamps()
	l.source.Put(lamp{"a", "hall", 3})
	l.watch(controller.Watches(l.informer, func(_ context.Context, l lamp) ([]string, error) {
		return []string{l.Room}, nil // after an error, the mapper would be called again after a backoff
	}))
	l.source.Put(lamp{"a", "attic", 3})
	l.look()
	// Output:
	// [hall]
	// [hall attic]
}

// A handler decides for itself which events matter. Here those of lamps that are gone do.
func ExampleHandles() {
	l := newLamps()
	l.source.Put(lamp{"a", "hall", 3})
	l.watch(controller.Handles(l.informer, func(add func(string)) informer.Handler[string, lamp] {
		return informer.Handler[string, lamp]{
			OnDelete: func(t cache.Tombstone[string, lamp]) { add("dispose of " + t.Key) },
		}
	}))
	l.source.Delete("a")
	l.look()
	// Output:
	// []
	// [dispose of a]
}

// Code without an informer calls Add, such as a webhook or a loop over a channel. A controller may have several inputs, or none.
func ExampleInput() {
	l := newLamps()
	inputs := []controller.Input[string]{controller.For(l.informer)}
	c := must(controller.New("lamps", func(_ context.Context, name string) (controller.Result, error) {
		fmt.Println(name)
		return controller.Result{}, nil
	}, controller.Config[string]{}, inputs...))
	pushed := make(chan string, 2)
	pushed <- "a"
	pushed <- "b"
	close(pushed)
	for name := range pushed {
		c.Add(name)
	}
	for _, name := range c.Ready() {
		c.Step(context.Background(), name)
	}
	// Output:
	// a
	// b
}
