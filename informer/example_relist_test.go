package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

// Row is an object that cannot be compared by ==, but has a version of its own.
type Row struct {
	Name string
	Tags []string
	ETag string
}

// etagged is a source of rows that compares them by their ETag.
type etagged struct {
	*informertest.Source[string, Row]
}

func (etagged) Equal(a, b Row) bool { return a.ETag == b.ETag }

// After an outage the source is listed again. Rows whose ETag is as it was are no updates.
func ExampleEqualer() {
	src := informertest.NewSource(func(r Row) string { return r.Name })
	src.Put(Row{Name: "ulm", ETag: "1"})
	src.Put(Row{Name: "kiel", ETag: "1"})

	rows, err := informer.New(etagged{src}, src.Key, informer.Config{
		Backoff: wait.Backoff{Duration: time.Millisecond}, OnError: func(error) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := make(chan string, 10)
	_, err = rows.AddHandler(informer.Handler[string, Row]{
		OnAdd:    func(r Row, _ bool) { calls <- "add " + r.Name },
		OnUpdate: func(old, r Row) { calls <- "update " + r.Name + " from " + old.ETag + " to " + r.ETag },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- rows.Run(ctx) }()
	fmt.Println(<-calls)
	fmt.Println(<-calls)

	src.FailWatches(errors.New("no route to host"))
	src.Put(Row{Name: "kiel", ETag: "2"})
	src.Compact()
	src.FailWatches(nil)
	fmt.Println(<-calls)
	err = rows.WaitForVersion(ctx, src.Version())
	fmt.Println(len(calls), "more", err)

	cancel()
	<-ended
	// Output:
	// add ulm
	// add kiel
	// update kiel from 1 to 2
	// 0 more <nil>
}

// restored is a source that is restored from a backup: what it was before, and then it is of an older version.
type restored struct {
	backup informer.List[Site]
	done   chan struct{} // closed when it is restored

	mu  sync.Mutex // guards the following
	now informer.List[Site]
}

func (r *restored) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.backup
	close(r.done)
}

// List implements [informer.ListWatcher].
func (r *restored) List(context.Context) (informer.List[Site], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now, nil
}

// Watch implements [informer.ListWatcher]: a version that is not in the history has expired.
func (r *restored) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Site], error] {
	return func(yield func(informer.Event[Site], error) bool) {
		err := informer.ErrExpired
		if after > r.backup.Version {
			select {
			case <-r.done:
				yield(informer.Event[Site]{}, err)
				return
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		yield(informer.Event[Site]{}, context.Cause(ctx))
	}
}

// The versions of a source go back, because it was restored from a backup. The informer cannot distinguish this from a replica that lags, so it
// rejects the list, until an operator resets it.
func ExampleInformer_Reset() {
	src := &restored{
		now:    informer.List[Site]{Items: []Site{{"ulm", "south"}, {"kiel", "north"}}, Version: 9},
		backup: informer.List[Site]{Items: []Site{{"ulm", "south"}}, Version: 4},
		done:   make(chan struct{}),
	}
	calls := make(chan any)
	sites, err := informer.New(src, siteName, informer.Config{Name: "sites", OnError: func(err error) { calls <- err }})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := sites.AddHandler(informer.Handler[string, Site]{
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- "delete " + d.Key },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	_ = informer.WaitForSync(ctx, handler) // objects deleted before that were never reported, and are not reported now
	fmt.Println("version", sites.Version())

	src.restore()
	fmt.Println(<-calls)
	sites.Reset()
	fmt.Println(<-calls)
	_ = sites.WaitForVersion(ctx, 4)
	fmt.Println("version", sites.Version())

	cancel()
	<-ended
	// Output:
	// version 9
	// informer: list sites: the list is of version 4, but version 9 was seen
	// delete kiel
	// version 4
}

// A handler that may lose its calls gets all objects again from time to time.
func ExampleHandler_resync() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := make(chan string)
	report := func(what string) {
		select {
		case calls <- what:
		case <-ctx.Done():
		}
	}
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:        func(s Site, _ bool) { report("add " + s.Name) },
		OnUpdate:     func(old, s Site) { report(fmt.Sprintf("update %s, changed: %t", s.Name, s != old)) },
		ResyncPeriod: time.Millisecond, // mostly some minutes
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	fmt.Println(<-calls)
	fmt.Println(<-calls)
	fmt.Println(<-calls)

	cancel()
	<-ended
	// Output:
	// add ulm
	// update ulm, changed: false
	// update ulm, changed: false
}
