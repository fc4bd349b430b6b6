package fencegrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencegrpc"
	"github.com/setpoint-go/setpoint/store"
)

// dialing are the options of a client.
func dialing(c *fencegrpc.Client) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// isFenced reports whether a controller leaves the key of an error to the next leader.
func isFenced(err error) bool {
	var f interface{ Fenced() bool }
	return errors.As(err, &f) && f.Fenced()
}

func TestCallOfLeaderCarriesItsClaim(t *testing.T) {
	var got metadata.MD
	see := func(ctx context.Context) { got, _ = metadata.FromIncomingContext(ctx) }
	conn := serving(t, &handlers{
		order: func(ctx context.Context, _ string) (string, error) { see(ctx); return "", nil },
		talk:  func(s grpc.ServerStream) error { see(s.Context()); return nil },
	}, nil, dialing(&fencegrpc.Client{})...)
	work, depose := leaderelect.Appoint(t.Context(), "größe", 7)
	defer depose(nil)
	for name, x := range map[string]struct {
		ctx         context.Context
		lease, term []string
	}{
		"the work":                  {work, []string{"gr%C3%B6%C3%9Fe"}, []string{"7"}},
		"with metadata":             {metadata.AppendToOutgoingContext(work, "leader-term", "99", "other", "x"), []string{"gr%C3%B6%C3%9Fe"}, []string{"7"}},
		"a claim that is passed on": {store.WithFence(t.Context(), store.Fence{Lease: "shop", Term: 6}), []string{"shop"}, []string{"6"}},
		"no claim, by request":      {store.Unfenced(work), nil, nil},
	} {
		before, _ := metadata.FromOutgoingContext(x.ctx)
		for range 2 {
			_, err := call(x.ctx, conn, order, "x")
			require.NoError(t, err, name)
			require.Equal(t, x.lease, got.Get("leader-lease"), name)
			require.Equal(t, x.term, got.Get("leader-term"), name)
		}
		got = nil
		require.Error(t, talks(t, x.ctx, conn).RecvMsg(new(text)))
		require.Equal(t, x.term, got.Get("leader-term"), name)
		after, _ := metadata.FromOutgoingContext(x.ctx)
		require.Equal(t, before, after, "the caller's metadata is as before")
	}
}

func TestNothingIsSentAfterLeadership(t *testing.T) {
	served := 0
	count := func(context.Context, string) (string, error) { served++; return "", nil }
	conn := serving(t, &handlers{order: count, look: count}, nil, dialing(&fencegrpc.Client{Unfenced: true, Safe: reads})...)
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	depose(leaderelect.ErrLeaseTaken)
	l, _ := leaderelect.FromContext(work)
	for _, method := range []string{order, look} {
		_, err := call(l.NewContext(t.Context()), conn, method, "x")
		require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.True(t, isFenced(err))
		require.EqualError(t, err, "fencegrpc: "+method+`: not sent, term 7 of lease "shop" is over: leaderelect: lease was taken by another`)
	}
	_, err := conn.NewStream(l.NewContext(t.Context()), &service.Streams[0], talk)
	require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
	require.Zero(t, served)
}

func TestOnlySafeCallsNeedNoLeadership(t *testing.T) {
	for _, unfenced := range []bool{false, true} {
		conn := serving(t, &handlers{}, nil, dialing(&fencegrpc.Client{Unfenced: unfenced, Safe: reads})...)
		_, err := call(t.Context(), conn, look, "x")
		require.NoError(t, err)
		_, err = call(t.Context(), conn, order, "x")
		_, err2 := conn.NewStream(t.Context(), &service.Streams[0], talk)
		if unfenced {
			require.NoError(t, errors.Join(err, err2))
			continue
		}
		require.ErrorIs(t, err, fencegrpc.ErrNoLeadership)
		require.ErrorIs(t, err2, fencegrpc.ErrNoLeadership)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.False(t, isFenced(err), "it is a mistake, and no change of leader")
	}
}

// A .proto file says which methods only read.
func TestDescriptorSaysWhetherMethodIsSafe(t *testing.T) {
	level := func(l descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodOptions {
		return &descriptorpb.MethodOptions{IdempotencyLevel: l.Enum()}
	}
	method := func(name string, options *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".safe.Nothing"), OutputType: new(".safe.Nothing"), Options: options,
		}
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath("safe.proto"); err == nil {
		t.Skip("the registry has it from an earlier run of the test in this process")
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("safe.proto"), Package: new("safe"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Nothing")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Service"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Read", level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)),
			method("Put", level(descriptorpb.MethodOptions_IDEMPOTENT)),
			method("Do", nil),
		}}},
	}, nil)
	require.NoError(t, err)
	require.NoError(t, protoregistry.GlobalFiles.RegisterFile(file))
	for name, safe := range map[string]bool{
		"/safe.Service/Read": true, "/safe.Service/Put": false, "/safe.Service/Do": false,
		"/safe.Service/None": false, "/safe.Nothing": false, "": false, "//": false, order: false,
	} {
		assert.Equal(t, safe, fencegrpc.Safe(name), name)
	}
}

func TestCallInFlightIsCanceled(t *testing.T) {
	own := errors.New("the caller has had enough")
	for _, what := range []string{"unary", "stream that receives", "stream that sends"} {
		for _, by := range []string{"leadership", "caller", "timeout"} {
			t.Run(what+" by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					gone := make(chan struct{})
					conn, stop := serve(&handlers{
						order: func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); close(gone); return "", ctx.Err() },
						talk:  func(s grpc.ServerStream) error { <-s.Context().Done(); close(gone); return s.Context().Err() },
					}, nil, dialing(&fencegrpc.Client{})...)
					defer stop()
					work, depose := leaderelect.Appoint(context.Background(), "shop", 7)
					defer depose(nil)
					l, _ := leaderelect.FromContext(work)
					ctx, cancel := context.WithCancelCause(l.NewContext(t.Context()))
					defer cancel(nil)
					if by == "timeout" {
						var done func()
						ctx, done = context.WithTimeout(ctx, time.Minute)
						defer done()
					}
					done := make(chan error, 1)
					go func() { // ends with the call
						if what == "unary" {
							_, err := call(ctx, conn, order, "x")
							done <- err
							return
						}
						s, err := conn.NewStream(ctx, &service.Streams[0], talk)
						for err == nil && what == "stream that sends" {
							err = s.SendMsg(wrapperspb.String(string(make([]byte, 10_000)))) // until the window is full
						}
						if err == nil || status.Code(err) == codes.Unknown { // io.EOF
							err = s.RecvMsg(new(text))
						}
						done <- err
					}()
					time.Sleep(time.Second)
					require.Empty(t, done)
					switch by {
					case "leadership":
						depose(leaderelect.ErrLeaseTaken)
					case "caller":
						cancel(own)
					default:
						time.Sleep(time.Minute)
					}
					synctest.Wait()
					require.Len(t, done, 1, "it has ended")
					err := <-done
					<-gone
					if by == "leadership" {
						require.ErrorIs(t, err, leaderelect.ErrLeaseTaken)
						require.Equal(t, codes.Canceled, status.Code(err))
						require.ErrorContains(t, err, `canceled in flight, term 7 of lease "shop" is over`)
						require.True(t, isFenced(err))
						return
					}
					require.Equal(t, map[string]codes.Code{"caller": codes.Canceled, "timeout": codes.DeadlineExceeded}[by], status.Code(err))
					require.False(t, isFenced(err))
				})
			})
		}
	}
}

// The context of a call ends with it. Otherwise, each call would stay in memory as long as the leadership.
func TestContextEndsWithCall(t *testing.T) {
	var sent context.Context
	see := grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		sent = ctx
		return invoker(ctx, method, req, reply, cc, opts...)
	})
	seeStream := grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		sent = ctx
		return streamer(ctx, desc, cc, method, opts...)
	})
	conn := serving(t, &handlers{talk: func(s grpc.ServerStream) error { return s.SendMsg(wrapperspb.String("hello")) }},
		nil, append(dialing(&fencegrpc.Client{}), see, seeStream)...)
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	defer depose(nil)
	_, err := call(work, conn, order, "x")
	require.NoError(t, err)
	require.Error(t, sent.Err())
	for _, single := range []bool{false, true} {
		s, err := conn.NewStream(work, &grpc.StreamDesc{ServerStreams: !single, ClientStreams: true}, talk)
		require.NoError(t, err)
		m := new(text)
		require.NoError(t, s.RecvMsg(m))
		require.Equal(t, "hello", m.Value)
		if !single {
			require.NoError(t, sent.Err())
			require.Error(t, s.RecvMsg(m))
		}
		require.Error(t, sent.Err())
	}
	s, err := conn.NewStream(work, &service.Streams[0], talk, grpc.MaxCallSendMsgSize(10))
	require.NoError(t, err)
	require.Equal(t, codes.ResourceExhausted, status.Code(s.SendMsg(wrapperspb.String("more than ten bytes"))))
	require.Error(t, sent.Err())
	refused := errors.New("refused")
	_, err = new(fencegrpc.Client).Stream(work, &service.Streams[0], conn, talk,
		func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			sent = ctx
			return nil, refused
		})
	require.Equal(t, refused, err)
	require.Error(t, sent.Err())
}

func TestMessageOfStreamIsNotSentAfterLeadership(t *testing.T) {
	conn := serving(t, &handlers{talk: func(s grpc.ServerStream) error { <-s.Context().Done(); return nil }}, nil, dialing(&fencegrpc.Client{})...)
	work, depose := leaderelect.Appoint(t.Context(), "shop", 7)
	l, _ := leaderelect.FromContext(work)
	s := talks(t, l.NewContext(t.Context()), conn)
	require.NoError(t, s.SendMsg(wrapperspb.String("hello")))
	depose(leaderelect.ErrLeaseExpired)
	err := s.SendMsg(wrapperspb.String("more"))
	require.ErrorIs(t, err, leaderelect.ErrLeaseExpired)
	require.Equal(t, codes.Canceled, status.Code(err))
	require.ErrorIs(t, s.RecvMsg(new(text)), leaderelect.ErrLeaseExpired)
}
