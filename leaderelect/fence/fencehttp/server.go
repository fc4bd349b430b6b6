package fencehttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// ServerConfig is the configuration of a [Server]. The zero value is valid.
type ServerConfig struct {
	// Lease returns the key of the lease whose leader may make a request: by its route, and, if callers are authenticated, by its caller.
	// A request with a term of another lease is refused, unless it is safe. If Lease returns "", no leader may make the request. Lease is
	// called concurrently.
	//
	// Without Lease, the header decides. Then each caller chooses which former leaders its request is compared with: a leader of any
	// lease may change what belongs to another one, and a caller may create guards up to MaxLeases. Leave it out only if all callers
	// are trusted, and each key of the service belongs to one lease.
	Lease func(*http.Request) string

	// MaxBody is the largest body of a request that is not safe, in bytes. The Server holds the body in memory. Defaults to 4 MiB.
	MaxBody int64

	// MaxLeases is the number of leases for which requests create guards. A guard takes about 100 bytes and the key of its lease, and is
	// never removed, because a guard that is forgotten admits a former leader. Requests of more leases are refused. Defaults to 10,000.
	MaxLeases int
}

// Server refuses requests of former leaders. It remembers the greatest term of each lease that it has seen. The guarantees are in the
// documentation of the package. All methods may be called concurrently.
type Server struct {
	cfg    ServerConfig
	guards *claim.Guards
}

// NewServer returns a server that has seen no term. Its error names each field of cfg that is out of bounds.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 4<<20)
	cfg.MaxLeases = cmp.Or(cfg.MaxLeases, 10_000)
	var errs []error
	if cfg.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("ServerConfig.MaxBody is %d, must not be negative", cfg.MaxBody))
	}
	if cfg.MaxLeases < 0 {
		errs = append(errs, fmt.Errorf("ServerConfig.MaxLeases is %d, must not be negative", cfg.MaxLeases))
	}
	if err := problems.Join(errs...); err != nil {
		return nil, fmt.Errorf("fencehttp: new server: %w", err)
	}
	return &Server{cfg, claim.NewGuards(cfg.MaxLeases)}, nil
}

// Guard returns the guard of a lease. Raise it after a restart, or to announce a leader that has nothing to write. It exists beyond
// MaxLeases too.
func (s *Server) Guard(lease string) *fence.Guard { return s.guards.Of(lease) }

// Wrap returns a handler that passes the requests on to next that may be served. Wrap all handlers of a service by one Server.
//
// Of a request that is not safe, next gets the body from memory. Its ResponseWriter keeps the response until next returns; http.Flusher,
// and a response of more than 1 MiB, send it at once. Then a client that reads slowly delays its successor: set http.Server.WriteTimeout.
func (s *Server) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := claim.Request{Lease: r.Header.Values(LeaseHeader), Term: r.Header.Values(TermHeader), Safe: safe(r.Method)}
		if s.cfg.Lease != nil {
			asked.Fixed, asked.Route = true, s.cfg.Lease(r)
		}
		admission, no := s.guards.Admit(asked)
		switch {
		case no != nil:
		case asked.Safe:
			no = admission.Do(r.Context(), func(ctx context.Context) { next.ServeHTTP(w, r.WithContext(ctx)) })
		default:
			in, ok := s.receive(w, r) // before the work, for which a successor waits
			if !ok {
				return
			}
			out := &response{w: w}
			no = admission.Do(r.Context(), func(ctx context.Context) { next.ServeHTTP(out, in.WithContext(ctx)) })
			if no == nil {
				out.finish() // after the work
			}
		}
		if no != nil {
			refuseBy(w, no)
		}
	})
}

// receive returns r with its whole body in memory. If that is not possible, it sends the response.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (in *http.Request, ok bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, true
	}
	tooLarge := &http.MaxBytesError{Limit: s.cfg.MaxBody}
	var err error = tooLarge
	var body []byte
	if r.ContentLength <= s.cfg.MaxBody {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	}
	switch {
	case errors.As(err, &tooLarge):
		write(w, problem{
			Type: "#too-large", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body has more than %d bytes", s.cfg.MaxBody),
		})
		return nil, false
	case err != nil:
		write(w, problem{Type: "#incomplete", Status: http.StatusBadRequest, Detail: "the body was cut off: " + err.Error()})
		return nil, false
	}
	in = r.WithContext(r.Context()) // after the trailer has come with the body
	in.Body, in.ContentLength, in.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return in, true
}
