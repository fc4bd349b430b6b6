package fencegrpc

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// ServerConfig is the configuration of a [Server]. The zero value is valid.
type ServerConfig struct {
	// Lease returns the key of the lease whose leader may make a call: by its method, and, if callers are authenticated, by its caller, which the
	// context knows. A call with a term of another lease is refused, unless it is safe. If Lease returns "", no leader may make the call.
	// Lease is called concurrently.
	//
	// Without Lease, the metadata decides. Then each caller chooses which former leaders its call is compared with: a leader of any lease may
	// change what belongs to another one, and a caller may create guards up to MaxLeases. Leave it out only if all callers are trusted, and
	// each key of the service belongs to one lease.
	Lease func(ctx context.Context, fullMethod string) string

	// Safe reports whether a method only reads, by its full name: "/package.service/method". It is called concurrently. Defaults to [Safe].
	Safe func(fullMethod string) bool

	// MaxLeases is the number of leases for which calls create guards. A guard takes about 100 bytes and the key of its lease, and is never
	// removed, because a guard that is forgotten admits a former leader. Calls of more leases are refused. Defaults to 10,000.
	MaxLeases int
}

// Server has the interceptors of a service that refuses calls of former leaders. It remembers the greatest term of each lease that it has seen. The
// guarantees are in the documentation of the package. All methods may be called concurrently.
type Server struct {
	cfg    ServerConfig
	guards *claim.Guards
}

// NewServer returns a server that has seen no term. Its error names the field of cfg that is out of bounds.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg.MaxLeases = cmp.Or(cfg.MaxLeases, 10_000)
	if cfg.MaxLeases < 0 {
		return nil, fmt.Errorf("fencegrpc: new server: ServerConfig.MaxLeases is %d, must not be negative", cfg.MaxLeases)
	}
	return &Server{cfg, claim.NewGuards(cfg.MaxLeases)}, nil
}

// Guard returns the guard of a lease. Raise it after a restart, or to announce a leader that has nothing to write. It exists beyond
// MaxLeases too.
func (s *Server) Guard(lease string) *fence.Guard { return s.guards.Of(lease) }

// Unary is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	admission, no := s.admit(ctx, info.FullMethod)
	if no == nil {
		no = admission.Do(ctx, func(ctx context.Context) { resp, err = handler(ctx, req) })
	}
	if no == nil {
		no = claim.Fenced(err)
	}
	if no != nil {
		return nil, refuse(no)
	}
	return resp, err
}

// Stream is a grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	admission, no := s.admit(ss.Context(), info.FullMethod)
	if no == nil {
		no = admission.DoUntilStale(ss.Context(), func(ctx context.Context) {
			stream := &serverStream{ss, ctx, admission}
			if err = handler(srv, stream); err != nil && admission.Stale(ctx) != nil {
				err = stream.ended()
			}
		})
	}
	if no == nil {
		no = claim.Fenced(err)
	}
	if no != nil {
		return refuse(no)
	}
	return err
}

func (s *Server) admit(ctx context.Context, method string) (*claim.Admission, *claim.Refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	asked := claim.Request{Lease: md.Get(LeaseKey), Term: md.Get(TermKey), Safe: isSafe(s.cfg.Safe, method)}
	if s.cfg.Lease != nil {
		asked.Fixed, asked.Route = true, s.cfg.Lease(ctx, method)
	}
	return s.guards.Admit(asked)
}

// serverStream is a stream whose calls end with its term, even if its client does nothing.
type serverStream struct {
	grpc.ServerStream
	ctx       context.Context
	admission *claim.Admission
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SendMsg(m any) error {
	return s.await(func() error { return s.ServerStream.SendMsg(m) })
}

func (s *serverStream) RecvMsg(m any) error {
	return s.await(func() error { return s.ServerStream.RecvMsg(m) })
}

// await returns the error of f, or that of the context if that ends before.
func (s *serverStream) await(f func() error) error {
	if s.ctx.Err() != nil {
		return s.ended()
	}
	done := make(chan error, 1)
	go func() { done <- f() }() // a client may do nothing; ends with the stream, which ends when the handler has returned
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		return s.ended()
	}
}

// ended returns why the context has ended.
func (s *serverStream) ended() error {
	if no := s.admission.Stale(s.ctx); no != nil {
		return no.Err
	}
	return context.Cause(s.ctx)
}
