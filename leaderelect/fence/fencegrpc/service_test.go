package fencegrpc_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// text is a message.
type text = wrapperspb.StringValue

// The methods of the service of the tests. Its description is by hand: generated code would be the same.
const (
	order = "/shop.Shop/Order"
	look  = "/shop.Shop/Look"
	talk  = "/shop.Shop/Talk"
	watch = "/shop.Shop/Watch"
)

// handlers are the methods of a service. A nil one does nothing.
type handlers struct {
	order, look func(ctx context.Context, in string) (string, error)
	talk, watch func(s grpc.ServerStream) error
}

func unary(name string, method func(h *handlers) func(context.Context, string) (string, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := new(text)
			if err := dec(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, req any) (any, error) {
				f := method(srv.(*handlers))
				if f == nil {
					return new(text), nil
				}
				out, err := f(ctx, req.(*text).Value)
				return wrapperspb.String(out), err
			}
			if interceptor == nil {
				return handler(ctx, in)
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/shop.Shop/" + name}, handler)
		},
	}
}

func stream(name string, method func(h *handlers) func(grpc.ServerStream) error) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName: name, ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error {
			if f := method(srv.(*handlers)); f != nil {
				return f(s)
			}
			return nil
		},
	}
}

var service = grpc.ServiceDesc{
	ServiceName: "shop.Shop",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Order", func(h *handlers) func(context.Context, string) (string, error) { return h.order }),
		unary("Look", func(h *handlers) func(context.Context, string) (string, error) { return h.look }),
	},
	Streams: []grpc.StreamDesc{
		stream("Talk", func(h *handlers) func(grpc.ServerStream) error { return h.talk }),
		stream("Watch", func(h *handlers) func(grpc.ServerStream) error { return h.watch }),
	},
}

// reads is the Safe function of the tests.
func reads(method string) bool { return method == look }

// serve serves h until close is called, and returns a connection to it.
func serve(h *handlers, server []grpc.ServerOption, client ...grpc.DialOption) (conn *grpc.ClientConn, close func()) {
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer(server...)
	s.RegisterService(&service, h)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	client = append(client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:///service", client...)
	if err != nil {
		panic(err)
	}
	return conn, func() {
		conn.Close()
		s.Stop()
		served.Wait()
	}
}

// serving is serve for a test.
func serving(t *testing.T, h *handlers, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	conn, stop := serve(h, server, client...)
	t.Cleanup(stop)
	return conn
}

// call calls a unary method.
func call(ctx context.Context, conn *grpc.ClientConn, method, in string) (string, error) {
	out := new(text)
	err := conn.Invoke(ctx, method, wrapperspb.String(in), out)
	return out.Value, err
}

// talks begins a stream.
func talks(t *testing.T, ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
	s, err := conn.NewStream(ctx, &service.Streams[0], talk)
	require.NoError(t, err)
	return s
}
