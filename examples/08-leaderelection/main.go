// Command 08-leaderelection has two replicas that write to one store: one leads and works, and the other waits. When the
// first is stopped, it finishes its work before the other begins. Once the other has written, the store refuses late writes
// of the first.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store"
)

// Site is an object that the leader manages.
type Site struct{ CaredForBy string }

// replica is one of several identical processes. Here they share a process, and the stores are in its memory.
type replica struct {
	name  string
	sites store.Store[Site]
	leads chan context.Context // is given the context of each leadership
}

// work is the work of the leader. It returns after ctx has ended and all work is done. Only then is the lease released.
func (r *replica) work(ctx context.Context, l *leaderelect.Leadership) error {
	fmt.Printf("%s leads in term %d\n", r.name, l.Term())
	err := r.write(ctx)
	r.leads <- ctx
	<-ctx.Done()
	fmt.Printf("%s finishes, and may still write: %v\n", r.name, r.write(l.Context()) == nil)
	return err
}

// write carries the term of the leadership that ctx belongs to: the store takes it from ctx, and refuses it once it has
// accepted a greater one.
func (r *replica) write(ctx context.Context) error {
	_, err := store.Patch(context.WithoutCancel(ctx), r.sites, "berlin", func(site *store.Object[Site]) error {
		site.Value.CaredForBy = r.name
		return nil
	})
	return err
}

func main() {
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open[Site](db, "Site", store.Config[Site]{})
	check(err)
	_, err = sites.Create(context.Background(), store.Object[Site]{Key: "berlin"})
	check(err)

	leases := memlease.New() // in production a database that all replicas can reach
	start := func(name string) (r *replica, stop func()) {
		r = &replica{name: name, sites: sites, leads: make(chan context.Context)}
		elector, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: "site-controller", Identity: name, ReleaseOnCancel: true, OnStartedLeading: r.work,
		})
		check(err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- elector.Run(ctx) }()
		return r, func() {
			cancel()
			check(<-ended)
		}
	}

	first, stopFirst := start("replica-1")
	old := <-first.leads
	second, stopSecond := start("replica-2") // waits
	stopFirst()
	<-second.leads

	// A replica that was paused or cut off may believe that it still leads. Its writes carry a term that is
	// lower than the one that replica-2 has written with.
	fmt.Println("replica-1 is refused:", errors.Is(first.write(old), store.ErrFenced))
	stopSecond()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
