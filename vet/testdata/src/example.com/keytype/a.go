package keytype

import (
	"context"
	"net/netip"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/workqueue"
)

type Site struct{ Name string }

type Order struct {
	Site string
	N    int
	Addr netip.Addr
	Part [2]struct{ Zone string }
}

type Event struct {
	Site string
	At   time.Time
}

type Nested struct{ Part struct{ Size float64 } }

func wrong() {
	controller.New("a", func(context.Context, *Site) (controller.Result, error) { // want `the key \*Site has a pointer, so one object can have two keys.*chapter 1`
		return controller.Result{}, nil
	}, controller.Config[*Site]{})
	_ = workqueue.New[Event](workqueue.Config[Event]{})                                   // want `the key Event has a time in its field At`
	_ = workqueue.New(workqueue.Config[Nested]{})                                         // want `the key Nested has a float in its field Part.Size`
	_ = expectations.NewCounted(expectations.Config[[1]any]{})                            // want `the key \[1\]any has an interface`
	_ = cache.NewIndexer(func(s Site) struct{ Of error } { return struct{ Of error }{} }) // want `has an interface in its field Of`
}

func right[K comparable]() {
	controller.New("a", func(context.Context, Order) (controller.Result, error) { return controller.Result{}, nil }, controller.Config[Order]{})
	_ = workqueue.New(workqueue.Config[string]{})
	_ = workqueue.New(workqueue.Config[K]{})
	_ = expectations.NewTracked[string, *Site](expectations.Config[string]{})
}

// Command is not the name of an object.
type Command struct{ Do, Site string }

// Part is the name of an object of one of two kinds.
type Part struct{ Kind, Name string }

func commands(q *workqueue.Queue[Part]) {
	orders := workqueue.New(workqueue.Config[Command]{})
	orders.AddAfter(Command{"create", "a"}, 0) // want `the key says what to do \(create, delete\), so one object has several keys`
	orders.AddAfter(Command{Site: "a", Do: "delete"}, 0)
	parts := workqueue.New(workqueue.Config[Part]{})
	parts.AddAfter(Part{"server", "a"}, 0)
	parts.AddAfter(Part{Kind: "disk", Name: "delete"}, 0)
}
