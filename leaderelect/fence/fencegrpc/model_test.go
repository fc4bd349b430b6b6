package fencegrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-go/setpoint/leaderelect/fence/fencegrpc"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/fencetest"
)

// The guarantees of the package, over random schedules with real gRPC. LEADERELECT_MODEL=full runs 20,000 of them.
func TestRandomSchedulesKeepGuarantees(t *testing.T) {
	fencetest.Run(t, fencetest.Protocol{
		Kinds:  []fencetest.Kind{fencetest.Read, fencetest.Write, fencetest.Write, fencetest.Watch, fencetest.Stream, fencetest.Stream},
		Client: newModelClient, Server: newModelServer,
	}, "stream done", "stream ended for successor", "given up")
}

// methods are the methods of the kinds of calls.
var methods = map[fencetest.Kind]string{fencetest.Read: look, fencetest.Write: order, fencetest.Watch: watch, fencetest.Stream: talk}

// modelReads is the Safe function of the model.
func modelReads(method string) bool { return method == look || method == watch }

// modelClient is the client of a process.
type modelClient struct {
	conns map[string]*grpc.ClientConn // by service

	mu sync.Mutex
	// mu guards the following.
	sent map[string]context.Context // of calls, by ID
}

func newModelClient(w fencetest.Way) fencetest.Client {
	c := &modelClient{conns: make(map[string]*grpc.ClientConn), sent: make(map[string]context.Context)}
	fenced := &fencegrpc.Client{Safe: modelReads, Unfenced: w.Mode == fencetest.Unfenced}
	var options []grpc.DialOption
	if w.Mode != fencetest.Plain {
		options = dialing(fenced)
	}
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, service string) (net.Conn, error) { return w.Dial(ctx, service) }),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(30_000)),
		grpc.WithConnectParams(grpc.ConnectParams{ // an attempt may last longer than a suspension, and the next one comes soon
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second}, MinConnectTimeout: time.Hour,
		}),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			c.sends(ctx)
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			c.sends(ctx)
			return streamer(ctx, desc, cc, method, opts...)
		}))
	for _, service := range []string{"blue", "green"} {
		conn, err := grpc.NewClient("passthrough:///"+service, options...)
		if err != nil {
			panic(err)
		}
		c.conns[service] = conn
	}
	return c
}

// sends notes the context under which a call is sent.
func (c *modelClient) sends(ctx context.Context) {
	md, _ := metadata.FromOutgoingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[md.Get("id")[0]] = ctx
}

func (c *modelClient) Close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

func (c *modelClient) Call(ctx context.Context, call *fencetest.Call) fencetest.Outcome {
	ctx = metadata.AppendToOutgoingContext(ctx, append([]string{"id", call.ID}, call.Claim...)...)
	before, _ := metadata.FromOutgoingContext(ctx)
	var err error
	if call.Kind.Streams() {
		err = c.talk(ctx, call)
	} else {
		err = c.conns[call.Service].Invoke(ctx, methods[call.Kind], wrapperspb.String(call.ID), new(text))
	}
	if after, _ := metadata.FromOutgoingContext(ctx); !reflect.DeepEqual(before, after) {
		call.Faultf("the metadata of its caller has changed: guarantee 3")
	}
	time.Sleep(time.Nanosecond) // the end of the leadership ends the context in another goroutine
	c.mu.Lock()
	sent := c.sent[call.ID]
	c.mu.Unlock()
	if call.Claimed() && sent != nil && sent.Err() == nil {
		call.Faultf("its context lasts longer than it: %v", err)
	}
	own := slices.Contains([]codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted}, status.Code(err))
	return fencetest.Outcome{Reason: reasonOf(err), Err: err, Own: own}
}

// talk makes a stream.
func (c *modelClient) talk(ctx context.Context, call *fencetest.Call) error {
	s, err := c.conns[call.Service].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methods[call.Kind])
	if err != nil {
		return err
	}
	for size, ok := call.Next(); ok; size, ok = call.Next() {
		over := call.Over()
		err := s.SendMsg(wrapperspb.String(strings.Repeat("x", size)))
		if err == io.EOF { // RecvMsg has the reason
			break
		}
		if status.Code(err) == codes.ResourceExhausted { // the message is too large
			call.GiveUp()
		}
		if err != nil {
			return err
		}
		if over {
			call.Faultf("a message is sent after the leadership: guarantee 2")
		}
		call.Sent()
	}
	call.Hold(s.Context())
	_ = s.CloseSend() // RecvMsg has the reason
	for {
		m := new(text)
		if err := s.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if len(m.Value) == fencetest.Late {
			call.Faultf("a message comes that was sent after the end of the stream's term: guarantee 7")
		}
	}
}

// reasonOf returns why a server has refused a call.
func reasonOf(err error) claim.Reason {
	for _, detail := range status.Convert(err).Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.Domain != "github.com/setpoint-go/setpoint" {
			continue
		}
		switch info.Reason {
		case "MISSING":
			return claim.Missing
		case "MALFORMED":
			return claim.Malformed
		case "OTHER_LEASE":
			return claim.OtherLease
		case "STALE":
			return claim.Stale
		}
	}
	return 0
}

// modelServer is one life of a service.
type modelServer struct {
	*fencegrpc.Server
	server *grpc.Server
}

func newModelServer(life *fencetest.Life) fencetest.Server {
	cfg := fencegrpc.ServerConfig{Safe: modelReads}
	if !life.AnyLease() {
		cfg.Lease = func(ctx context.Context, _ string) string {
			md, _ := metadata.FromIncomingContext(ctx)
			return life.Lease(strings.Join(md.Get(fencetest.User), ""))
		}
	}
	fences, err := fencegrpc.NewServer(cfg)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(intercepted(fences)...)
	request := func(ctx context.Context) fencetest.Request {
		md, _ := metadata.FromIncomingContext(ctx)
		return fencetest.Request{
			ID: md.Get("id")[0], Lease: md.Get("leader-lease"), Term: md.Get("leader-term"), Receive: func() (bool, error) { return false, nil },
		}
	}
	once := func(ctx context.Context, _ string) (string, error) {
		err := life.Serve(ctx, request(ctx))
		return strings.Repeat("x", life.Size()), err
	}
	stream := func(s grpc.ServerStream) error {
		r := request(s.Context())
		r.Receive = func() (bool, error) {
			err := s.RecvMsg(new(text))
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return true, err
		}
		r.Send = func(size int) error { return s.SendMsg(wrapperspb.String(strings.Repeat("x", size))) }
		return life.Serve(s.Context(), r)
	}
	server.RegisterService(&service, &handlers{order: once, look: once, talk: stream, watch: stream})
	return &modelServer{fences, server}
}

func (s *modelServer) Serve(l *fencetest.Listener) { _ = s.server.Serve(l) }
func (s *modelServer) Close()                      { s.server.Stop() }
