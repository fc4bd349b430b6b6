package fencegrpc

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// The keys of the metadata in which a leader names its lease and its term.
const (
	LeaseKey = "leader-lease"
	TermKey  = "leader-term"
)

// ErrNoLeadership means that a call could change something and its context carries no leadership.
var ErrNoLeadership = claim.ErrNoLeadership

// Client has the interceptors of a leader's client. It takes the leadership from the context of each call (leaderelect.FromContext), so that one
// connection serves all leases and slots of a process. The guarantees are in the documentation of the package.
//
// Behind a [Server], it passes the claim of the call that is being served on to the next service.
//
// The zero value is ready for use. Do not change the fields after the first use. A Client may be used concurrently.
type Client struct {
	// Safe reports whether a method only reads, by its full name: "/package.service/method". Defaults to [Safe].
	Safe func(fullMethod string) bool

	// Unfenced also makes calls without a leadership that are not safe. Set it for a connection that others than a leader use as well.
	Unfenced bool
}

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	out, err := c.begin(ctx, method)
	if err != nil {
		return err
	}
	defer out.Release()
	return out.explain(invoker(out.Context(), method, req, reply, cc, opts...))
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	out, err := c.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	s, err := streamer(out.Context(), desc, cc, method, opts...)
	if err != nil {
		err = out.explain(err)
		out.Release()
		return nil, err
	}
	return &clientStream{s, out, !desc.ServerStreams}, nil
}

// call is a call in flight.
type call struct {
	*claim.Bound
	claim  claim.Claim
	method string
	ctx    context.Context // of Bound, with the metadata
}

// begin returns the call, or an error if it may not be made.
func (c *Client) begin(ctx context.Context, method string) (*call, error) {
	out := &call{method: method}
	var ok bool
	if out.claim, ok = claim.Of(ctx); !ok && !c.Unfenced && !isSafe(c.Safe, method) {
		return nil, out.fail(codes.FailedPrecondition, ErrNoLeadership)
	}
	if err := out.claim.Err(false); err != nil {
		return nil, out.fail(codes.FailedPrecondition, err)
	}
	out.Bound = out.claim.Bind(ctx)
	out.ctx = out.Bound.Context()
	if !out.claim.Empty() {
		md, _ := metadata.FromOutgoingContext(ctx)
		md = md.Copy()
		lease, term := claim.Text(out.claim.Fence)
		md.Set(LeaseKey, lease)
		md.Set(TermKey, term)
		out.ctx = metadata.NewOutgoingContext(out.ctx, md)
	}
	return out, nil
}

// Context returns the context of the call.
func (c *call) Context() context.Context { return c.ctx }

// explain returns the error of a call that was made.
func (c *call) explain(err error) error {
	if err == nil {
		return nil
	}
	if why := c.Explain(err); why != err {
		return c.fail(codes.Canceled, why)
	}
	return received(err)
}

func (c *call) fail(code codes.Code, err error) error {
	return &callError{code, fmt.Errorf("fencegrpc: %s: %w", c.method, err)}
}

// clientStream is a stream in flight.
type clientStream struct {
	grpc.ClientStream
	call   *call
	single bool // the server sends one message
}

func (s *clientStream) SendMsg(m any) error {
	if err := s.call.claim.Err(true); err != nil {
		return s.call.fail(codes.Canceled, err)
	}
	err := s.ClientStream.SendMsg(m)
	if err == nil || err == io.EOF { // RecvMsg has the reason
		return err
	}
	err = s.call.explain(err)
	s.call.Release() // the stream has ended
	return err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && err != io.EOF {
		err = s.call.explain(err)
	}
	if err != nil || s.single { // the stream has ended
		s.call.Release()
	}
	return err
}
