package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

// DNS is the client of an API.
type DNS struct{ *http.Client }

// Put makes the entry of a site.
func (d DNS) Put(ctx context.Context, site store.Object[Site]) error {
	return d.call(ctx, http.MethodPut, site)
}

// Remove deletes the entry of a site. The API takes a while.
func (d DNS) Remove(ctx context.Context, site store.Object[Site]) error {
	return d.call(ctx, http.MethodDelete, site)
}

func (d DNS) call(ctx context.Context, method string, site store.Object[Site]) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://dns.example.com/"+site.Key, nil)
	if err != nil {
		return retry.Permanent(err) // an invalid name
	}
	resp, err := d.Do(req)
	if err != nil {
		return err // or retry.NotYet, if the limiter has no place
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusAccepted:
		return retry.NotYet(fmt.Errorf("the entry of %s is not gone yet", site.Key), 50*time.Millisecond)
	case resp.StatusCode >= 400:
		return fmt.Errorf("%s of the entry of %s: %s", method, site.Key, resp.Status)
	}
	return nil
}

// zone is the other side of DNS: a server without a network. The second DELETE removes an entry.
type zone struct {
	mu sync.Mutex

	// mu guards the following.

	entries map[string]bool // true: its deletion was requested
}

// RoundTrip makes z the transport of its clients.
func (z *zone) RoundTrip(req *http.Request) (*http.Response, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answer, name := httptest.NewRecorder(), req.URL.Path[1:]
	asked, there := z.entries[name]
	switch {
	case req.Method == http.MethodPut:
		z.entries[name] = false
	case there && !asked:
		z.entries[name] = true
		answer.WriteHeader(http.StatusAccepted)
	default:
		delete(z.entries, name)
	}
	return answer.Result(), nil
}

func (z *zone) len() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.entries)
}

// boot simulates all machines: each server becomes ready a moment after it was created or received another image.
func boot(ctx context.Context, servers store.Store[Server]) error {
	for ev, err := range servers.Watch(ctx, 0) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if ev.Type == informer.Bookmark || ev.Type == informer.Deleted {
			continue
		}
		time.Sleep(time.Millisecond)
		_, err := store.PatchStatus(ctx, servers, ev.Object.Key, func(s *store.Object[Server]) error { s.Value.Ready = true; return nil })
		if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// demo acts as a user who creates a site, shrinks it, and deletes it.
func demo(ctx context.Context, db *store.Memory) error {
	sites, err1 := store.Open(db, "Site", store.Config[Site]{})
	servers, err2 := store.Open(db, "Server", store.Config[Server]{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	dns := &zone{entries: map[string]bool{}}
	var g wait.Group
	g.Start(ctx, func(ctx context.Context) error { return boot(ctx, servers) })
	g.Start(ctx, func(ctx context.Context) error { return run(ctx, db, dns) })
	until := func(text string, done func(ctx context.Context) (bool, error)) error {
		if err := wait.For(ctx, done); err != nil {
			return err
		}
		list, err := servers.List(ctx)
		fmt.Printf("%s: %d servers, %d DNS entries\n", text, len(list.Items), dns.len())
		return err
	}
	ready := func(n int) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			site, err := sites.Get(ctx, "berlin")
			c, _ := site.Value.Status.Get("Ready")
			return c.OK && c.Message == fmt.Sprintf("%d of %d servers are ready", n, n), err
		}
	}
	gone := func(ctx context.Context) (bool, error) {
		_, err := sites.Get(ctx, "berlin")
		list, errList := servers.List(ctx)
		return errors.Is(err, store.ErrNotFound) && len(list.Items) == 0, errList
	}
	_, err := sites.Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Servers: 3, Image: "v1"}})
	if err == nil {
		err = until("created", ready(3))
	}
	if err == nil {
		_, err = store.Patch(ctx, sites, "berlin", func(s *store.Object[Site]) error { s.Value.Servers = 1; return nil })
	}
	if err == nil {
		err = until("scaled down", ready(1))
	}
	if err == nil {
		_, err = sites.Delete(ctx, "berlin")
	}
	if err == nil {
		err = until("deleted", gone)
	}
	stop()
	return errors.Join(err, g.Wait())
}
