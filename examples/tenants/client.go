package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/store"
)

// client calls the cloud through two gates: one for its limit, one for its outages. A call that may not be made now fails at once,
// with an error that says when to come back. So it occupies no worker, and does not count as a failure. Each change carries the leader's
// term, and is not sent once that is over.
type client struct {
	url     string
	http    *http.Client
	breaker *gate.Breaker
	listed  []cloud.Resource // by the last call of version; the polls do not overlap
}

// budget is the number of calls a second that the cloud allows.
const budget = 5

func newClient(url string) (*client, error) {
	breaker, err := gate.NewBreaker(gate.BreakerConfig{Name: "cloud", Failures: 3, OpenFor: 2 * time.Second, Counts: func(err error) bool {
		var fenced interface{ Fenced() bool }
		return !retry.IsNotYet(err) && !retry.IsPermanent(err) && !errors.As(err, &fenced) // these say nothing against the cloud
	}})
	if err != nil {
		return nil, err
	}
	return &client{
		url:     url,
		http:    &http.Client{Transport: &fencehttp.Transport{Base: gate.NewLimiter(budget, budget).Transport(nil)}, Timeout: 10 * time.Second},
		breaker: breaker,
	}, nil
}

// Put creates or changes a resource in the cloud.
func (c *client) Put(ctx context.Context, r store.Object[Resource]) (informer.Version, error) {
	var done struct{ Revision informer.Version }
	err := c.call(ctx, http.MethodPut, resourcePath(r), cloud.Resource{Kind: r.Value.Kind, Region: r.Value.Region, Owner: r.UID}, &done)
	return done.Revision, err
}

// Delete removes a resource from the cloud. It does not touch a resource that a later object with the same key has made.
func (c *client) Delete(ctx context.Context, r store.Object[Resource]) error {
	return c.call(ctx, http.MethodDelete, resourcePath(r)+"?owner="+url.QueryEscape(r.UID), nil, nil)
}

func resourcePath(r store.Object[Resource]) string {
	return (&url.URL{Path: "/resources/" + r.Key}).EscapedPath()
}

// source lists the cloud every interval. Its versions are the revisions of the cloud, so that a list can be compared with the
// results of Put.
func (c *client) source(interval time.Duration) (informer.ListWatcher[cloud.Resource], error) {
	list := func(context.Context) ([]cloud.Resource, error) { return c.listed, nil }
	key := func(r cloud.Resource) string { return r.Key }
	return poll.New(list, key, poll.Config[cloud.Resource]{Interval: interval, Version: c.version})
}

// version lists the cloud, and returns the revision of the list.
func (c *client) version(ctx context.Context) (informer.Version, error) {
	var all cloud.List
	err := c.call(ctx, http.MethodGet, "/resources", nil, &all)
	if err == nil {
		c.listed = all.Items
	}
	return informer.Version(all.Revision), err
}

// call makes one call. ctx is that of the leader, except for a list.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return retry.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return retry.Permanent(err)
	}
	return c.breaker.Do(ctx, func(context.Context) error {
		resp, err := c.http.Do(req)
		if err != nil {
			return err // or retry.NotYet, if the limit is reached
		}
		defer resp.Body.Close()
		if err := fencehttp.Check(resp); err != nil {
			return err // the controller stops, without a retry
		}
		if resp.StatusCode != http.StatusOK {
			return refused(resp)
		}
		if result == nil {
			return nil
		}
		return json.NewDecoder(resp.Body).Decode(result)
	})
}

// answer is the text with which the cloud refuses a request.
type answer string

func (a answer) Error() string { return "the cloud says: " + string(a) }

// refused returns the error of an unsuccessful response.
func refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a partial text is good enough
	err := answer(strings.TrimSpace(string(text)))
	if resp.StatusCode == http.StatusUnprocessableEntity {
		return retry.Permanent(err) // a retry would not help
	}
	return err
}

// reason returns the text of an error for people: the answer of the cloud, if there was one.
func reason(err error) string {
	if said := answer(""); errors.As(err, &said) {
		return said.Error()
	}
	return err.Error()
}
