// Command 04-informer mirrors a source that can only be listed, and reports its changes to two handlers: one from the start,
// and one that joins late.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// Certificate is an object of the source.
type Certificate struct {
	Domain string
	Serial int
}

func domainOf(c Certificate) string { return c.Domain }

func main() {
	// The source: a table, an API, a directory. Poll lists it at intervals and finds what has changed by comparing.
	var db table
	db.set(Certificate{"example.com", 1}, Certificate{"example.org", 1})
	source, err := poll.New(db.list, domainOf, poll.Config[Certificate]{Interval: time.Hour})
	check(err)
	certificates, err := informer.New(source, domainOf, informer.Config{Name: "certificates"})
	check(err)

	events := make(chan string)
	_, err = certificates.AddHandler(informer.Handler[string, Certificate]{
		OnAdd: func(c Certificate, initial bool) {
			events <- fmt.Sprintf("%s is there, from the start: %v", c.Domain, initial)
		},
		OnUpdate: func(old, c Certificate) {
			events <- fmt.Sprintf("%s: serial %d, was %d", c.Domain, c.Serial, old.Serial)
		},
		OnDelete: func(deleted cache.Tombstone[string, Certificate]) {
			events <- fmt.Sprintf("%s was deleted, serial %d", deleted.Key, deleted.Object.Serial)
		},
	})
	check(err)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- certificates.Run(ctx) }()
	fmt.Println(<-events)
	fmt.Println(<-events)

	db.set(Certificate{"example.com", 2})
	source.Nudge() // poll now, because the source is known to have changed
	fmt.Println(<-events)
	fmt.Println(<-events)

	// A handler may join at any time. It is called for exactly the objects that exist now, and then for changes.
	late := make(chan string)
	registration, err := certificates.AddHandler(informer.Handler[string, Certificate]{
		OnAdd: func(c Certificate, _ bool) { late <- fmt.Sprintf("%s, serial %d", c.Domain, c.Serial) },
	})
	check(err)
	fmt.Println("late:", <-late)
	check(informer.WaitForSync(ctx, certificates, registration))
	fmt.Println("objects in the cache:", certificates.Indexer().Len())

	stop()
	check(<-ended)
}

// table is the source.
type table struct {
	mu   sync.Mutex
	rows []Certificate // guarded by mu
}

func (t *table) set(rows ...Certificate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = rows
}

// list is called from another goroutine. An error would leave the cache unchanged.
func (t *table) list(context.Context) ([]Certificate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		return nil, errors.New("the table is not there")
	}
	return t.rows, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
