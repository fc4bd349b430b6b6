//go:build linux

package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	fencing "github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// fencingVar is the variable that makes a process of the test binary a leader that calls a service, or a service.
const fencingVar = "BACKENDTEST_FENCING"

// fencingSpec configures such a process.
type fencingSpec struct {
	Name   string
	Leases string // the directory of the leases
	Lease  time.Duration

	URL string // of the service; for leaders

	Service  string // the address of the service; for services
	Raise    bool   // the guard, from the lease
	Database string // a SQLite file, to which each request writes; or ""
}

// remark is a line of the output of such a process.
type remark struct {
	What   string // begins, ended, stops, knows, over; serves, arrives, does, fenced; failed
	ID     string `json:",omitempty"` // of the request
	Term   uint64 `json:",omitempty"`
	Said   string `json:",omitempty"` // of ended: done, stale, not sent, canceled, unknown
	Have   uint64 `json:",omitempty"` // of a stale one
	Status int    `json:",omitempty"` // of arrives
	Error  string `json:",omitempty"`
}

// say prints a line of output.
func say(r remark) {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it is plain data
	}
	fmt.Println(string(text))
}

// The places at which a leader stops itself in a request.
const (
	before = "before" // it was checked, and nothing was sent
	inBody = "in the body"
	sent   = "sent" // as before, but nothing can cancel it anymore: as if it was in the network
)

// runFencing runs such a process, until it gets a signal or its parent dies.
func runFencing(text string) error {
	var spec fencingSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	leases, err := filelease.New(spec.Leases)
	if err != nil {
		return err
	}
	if spec.Service != "" {
		return spec.serve(leases)
	}
	return spec.lead(leases)
}

// caller makes the requests of a leader.
type caller struct {
	client *http.Client
	spec   fencingSpec
	stop   atomic.Pointer[string] // where the next request stops; nil if it does not
}

// takeStop returns whether to stop at a place, once.
func (c *caller) takeStop(places ...string) bool {
	at := c.stop.Load()
	for _, place := range places {
		if at != nil && *at == place && c.stop.CompareAndSwap(at, nil) {
			return true
		}
	}
	return false
}

// RoundTrip is the network of the Transport: what it gets has been checked.
func (c *caller) RoundTrip(r *http.Request) (*http.Response, error) {
	at := c.stop.Load()
	if c.takeStop(before, sent) {
		term, _ := strconv.ParseUint(r.Header.Get(fencehttp.TermHeader), 10, 64)
		say(remark{What: "stops", ID: r.URL.Path[1:], Term: term})
		stopHere()
		if *at == sent {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
			defer cancel()
			whole := r.Clone(ctx)
			whole.Body, whole.GetBody = io.NopCloser(strings.NewReader("a request")), nil
			anew := &http.Transport{DisableKeepAlives: true} // the service may have ended and begun again
			resp, err := anew.RoundTrip(whole)
			if err == nil {
				resp.Body.Close()
				resp.Body = http.NoBody
			}
			return resp, err
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// body is the body of a request, in which the process may stop.
type body struct {
	caller *caller
	id     string
	term   uint64
	left   []string
}

func (b *body) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	if len(b.left) == 1 && b.caller.takeStop(inBody) {
		time.Sleep(100 * time.Millisecond) // the first part arrives
		say(remark{What: "stops", ID: b.id, Term: b.term})
		stopHere()
	}
	n := copy(p, b.left[0])
	b.left = b.left[1:]
	return n, nil
}

// call makes a request.
func (c *caller) call(l *leaderelect.Leadership, id string) {
	say(remark{What: "begins", ID: id, Term: l.Term()})
	r := remark{What: "ended", ID: id, Term: l.Term(), Said: "unknown"}
	ctx := l.NewContext(context.Background()) // does not end with the leadership, so only the Transport cancels it
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.spec.URL+"/"+id, &body{c, id, l.Term(), []string{"a ", "request"}})
	if err != nil {
		panic(err)
	}
	resp, err := c.client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	var fenced interface{ Fenced() bool }
	switch {
	case err == nil:
		stale := new(fencing.StaleError)
		switch err = fencehttp.Check(resp); {
		case errors.As(err, &stale):
			r.Said, r.Have = "stale", stale.Have
		case resp.StatusCode == http.StatusOK:
			r.Said = "done"
		default:
			err = errors.New(resp.Status)
		}
	case errors.As(err, &fenced) && strings.Contains(err.Error(), "not sent"):
		r.Said = "not sent"
	case errors.As(err, &fenced):
		r.Said = "canceled"
	}
	if err != nil {
		r.Error = err.Error()
	}
	say(r)
}

// unreachable is a store of leases that a process does not reach anymore.
type unreachable struct {
	leaderelect.LeaseStore
	lost atomic.Bool
}

func (u *unreachable) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if u.lost.Load() {
		return leaderelect.Entry{}, errCut
	}
	return u.LeaseStore.Get(ctx, key)
}

func (u *unreachable) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if u.lost.Load() {
		return leaderelect.Entry{}, errCut
	}
	return u.LeaseStore.Update(ctx, e)
}

// lead competes for the lease, and as the leader calls the service.
func (s fencingSpec) lead(leases leaderelect.LeaseStore) error {
	link := &unreachable{LeaseStore: leases}
	c := &caller{spec: s}
	c.client = &http.Client{Transport: &fencehttp.Transport{Base: c}}
	// Reads what the test asks for. It ends with the parent, and with it the process.
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if text := lines.Text(); text == "lose" {
				link.lost.Store(true)
			} else {
				c.stop.Store(&text)
			}
		}
		os.Exit(1)
	}()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: link, Key: "shop", Identity: s.Name, LeaseDuration: s.Lease, RetryPeriod: s.Lease / 8, Logger: slog.New(slog.DiscardHandler),
		OnStepDownOverrun: func(*leaderelect.Leadership) {}, // a process was stopped
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			for i := 0; ctx.Err() == nil; i++ {
				c.call(l, fmt.Sprintf("%s-%d-%d", s.Name, l.Term(), i))
				time.Sleep(pause)
			}
			return nil
		},
		OnStoppedLeading: func(l *leaderelect.Leadership, _ error) { say(remark{What: "over", Term: l.Term()}) },
		OnNewLeader:      func(l leaderelect.Leader) { say(remark{What: "knows", Term: l.Term}) },
	})
	if err != nil {
		return err
	}
	return elector.Run(context.Background())
}

// entry is an entry of the log in the database.
type entry struct {
	ID   string
	Term uint64
}

// openLog opens the log in a database.
func openLog(ctx context.Context, file string) (store.Store[[]entry], func() error, error) {
	db, err := sqlite.Open(ctx, file, sqlite.Config{})
	if err != nil {
		return nil, nil, err
	}
	log, err := store.Open(db, "Log", store.Config[[]entry]{})
	return log, db.Close, err
}

func readLog(t *testing.T, file string) []entry {
	log, closeLog, err := openLog(t.Context(), file)
	require.NoError(t, err)
	defer closeLog()
	o, err := log.Get(t.Context(), "log")
	require.NoError(t, err)
	return o.Value
}

// serve is the service.
func (s fencingSpec) serve(leases leaderelect.LeaseStore) error {
	ctx := context.Background()
	fences, err := fencehttp.NewServer(fencehttp.ServerConfig{Lease: func(*http.Request) string { return "shop" }})
	if err != nil {
		return err
	}
	if s.Raise {
		lease, err := leases.Get(ctx, "shop")
		if err != nil {
			return err
		}
		if err := fences.Guard("shop").Raise(lease.Term); err != nil {
			return err
		}
	}
	var log store.Store[[]entry]
	if s.Database != "" {
		if log, _, err = openLog(ctx, s.Database); err != nil {
			return err
		}
	}
	inner := fences.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, _ := store.FenceFrom(r.Context())
		e := entry{r.URL.Path[1:], f.Term}
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != "a request" {
			say(remark{What: "failed", Error: fmt.Sprintf("the body of %s is %q: %v", e.ID, text, err)})
		}
		if log != nil {
			_, err := store.CreateOrUpdate(r.Context(), log, "log", func(o *store.Object[[]entry]) error { o.Value = append(o.Value, e); return nil })
			if fencehttp.Refuse(w, err) {
				say(remark{What: "fenced", ID: e.ID, Term: e.Term})
				return
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		say(remark{What: "does", ID: e.ID, Term: e.Term})
	}))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		inner.ServeHTTP(seen, r)
		say(remark{What: "arrives", ID: r.URL.Path[1:], Status: seen.status})
	})
	l, err := net.Listen("tcp", s.Service)
	if err != nil {
		return err
	}
	// Ends with the parent, and with it the process.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	say(remark{What: "serves"})
	server := &http.Server{Handler: handler}
	return server.Serve(l)
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
