package fencehttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/fencetest"
)

// The guarantees of the package, over random schedules with real HTTP. LEADERELECT_MODEL=full runs 20,000 of them.
func TestRandomSchedulesKeepGuarantees(t *testing.T) {
	fencetest.Run(t, fencetest.Protocol{Kinds: []fencetest.Kind{fencetest.Read, fencetest.Write, fencetest.Write}, Client: newModelClient, Server: newModelServer})
}

// modelClient is the client of a process.
type modelClient struct {
	http.Client
	way *http.Transport
}

func newModelClient(w fencetest.Way) fencetest.Client {
	way := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return w.Dial(ctx, strings.TrimSuffix(address, ":80"))
		},
		DisableKeepAlives: w.Once,
	}
	c := &modelClient{http.Client{Transport: way}, way}
	if w.Mode != fencetest.Plain {
		c.Transport = &fencehttp.Transport{Base: way, Unfenced: w.Mode == fencetest.Unfenced}
	}
	return c
}

func (c *modelClient) Close() { c.way.CloseIdleConnections() }

func (c *modelClient) Call(ctx context.Context, call *fencetest.Call) fencetest.Outcome {
	method, body := http.MethodGet, io.ReadCloser(nil)
	if !call.Kind.Safe() {
		method, body = http.MethodPost, io.NopCloser(&slowBody{call: call})
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+call.Service+"/"+call.ID, body)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(call.Claim); i += 2 {
		req.Header.Add(call.Claim[i], call.Claim[i+1])
	}
	resp, err := c.Do(req)
	var out fencetest.Outcome
	if err == nil {
		if _, err = readAll(resp); err == nil {
			out.Reason, err = reasonOf(resp)
		}
	}
	out.Err, out.Own = err, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return out
}

// reasonOf returns why a server has refused a request, and the error of its caller.
func reasonOf(resp *http.Response) (claim.Reason, error) {
	failed := errors.New(resp.Status)
	switch resp.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusBadRequest:
		return claim.Malformed, failed
	case http.StatusForbidden:
		return claim.OtherLease, failed
	case http.StatusPreconditionFailed:
		return claim.Stale, fencehttp.Check(resp)
	case http.StatusPreconditionRequired:
		return claim.Missing, failed
	case http.StatusServiceUnavailable:
		return claim.Ended, failed
	}
	return 0, failed
}

// slowBody is a body in pieces.
type slowBody struct {
	call *fencetest.Call
	over bool // the leadership was over when the last piece was read
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.over {
		b.call.Faultf("the body is read after the leadership: guarantee 2")
	}
	n, ok := b.call.Next()
	b.over = b.call.Over()
	if !ok {
		return 0, io.EOF
	}
	return copy(p, bytes.Repeat([]byte("x"), n)), nil
}

// modelServer is one life of a service.
type modelServer struct {
	*fencehttp.Server
	server *http.Server
}

func newModelServer(life *fencetest.Life) fencetest.Server {
	var cfg fencehttp.ServerConfig
	if !life.AnyLease() {
		cfg.Lease = func(r *http.Request) string { return life.Lease(r.Header.Get(fencetest.User)) }
	}
	fences, err := fencehttp.NewServer(cfg)
	if err != nil {
		panic(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := life.Serve(r.Context(), fencetest.Request{
			ID: r.URL.Path[1:], Lease: r.Header.Values("Leader-Lease"), Term: r.Header.Values("Leader-Term"),
			Receive: func() (bool, error) { _, err := io.Copy(io.Discard, r.Body); return false, err },
		})
		switch {
		case err == fencetest.ErrCrashed:
			panic(http.ErrAbortHandler)
		case fencehttp.Refuse(w, err):
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = w.Write(make([]byte, life.Size()))
		}
	})
	return &modelServer{fences, &http.Server{ErrorLog: silent(), Handler: fences.Wrap(handler)}}
}

func (s *modelServer) Guard(lease string) *fence.Guard { return s.Server.Guard(lease) }
func (s *modelServer) Serve(l *fencetest.Listener)     { _ = s.server.Serve(l) }
func (s *modelServer) Close()                          { s.server.Close() }
