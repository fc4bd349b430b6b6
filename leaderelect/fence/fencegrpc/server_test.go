package fencegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/fencegrpc"
	"github.com/setpoint-go/setpoint/store"
)

func newServer(t *testing.T, cfg fencegrpc.ServerConfig) *fencegrpc.Server {
	s, err := fencegrpc.NewServer(cfg)
	require.NoError(t, err)
	return s
}

// intercepted are the options of a server.
func intercepted(s *fencegrpc.Server) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// shop fixes the lease of all methods.
func shop(context.Context, string) string { return "shop" }

// claiming returns a context with the metadata of a leader.
func claiming(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// leader returns the context of a leader of "shop" that lasts as long as the test.
func leader(t *testing.T, term uint64) context.Context {
	work, depose := leaderelect.Appoint(t.Context(), "shop", term)
	t.Cleanup(func() { depose(nil) })
	return work
}

func TestServerDecidesByTable(t *testing.T) {
	ok := codes.OK
	for name, x := range map[string]struct {
		pairs       []string
		safe, other codes.Code
		reason      string
	}{
		"no term":        {nil, ok, codes.InvalidArgument, "MISSING"},
		"only a term":    {[]string{"leader-term", "8"}, codes.InvalidArgument, codes.InvalidArgument, "MALFORMED"},
		"two terms":      {[]string{"leader-lease", "shop", "leader-term", "8", "leader-term", "9"}, codes.InvalidArgument, codes.InvalidArgument, "MALFORMED"},
		"no number":      {[]string{"leader-lease", "shop", "leader-term", "x"}, codes.InvalidArgument, codes.InvalidArgument, "MALFORMED"},
		"another lease":  {[]string{"leader-lease", "Shop", "leader-term", "9"}, ok, codes.PermissionDenied, "OTHER_LEASE"},
		"a stale term":   {[]string{"leader-lease", "shop", "leader-term", "6"}, codes.FailedPrecondition, codes.FailedPrecondition, "STALE"},
		"the term":       {[]string{"leader-lease", "shop", "leader-term", "7"}, ok, ok, ""},
		"a greater term": {[]string{"leader-lease", "shop", "leader-term", "18446744073709551615"}, ok, ok, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{order, look, talk} {
				s := newServer(t, fencegrpc.ServerConfig{Lease: shop, Safe: reads})
				require.NoError(t, s.Guard("shop").Raise(7))
				served := 0
				count := func(context.Context, string) (string, error) { served++; return "", nil }
				conn := serving(t, &handlers{order: count, look: count, talk: func(s grpc.ServerStream) error {
					served++
					return s.SendMsg(new(text))
				}}, intercepted(s))
				var err error
				if method == talk {
					err = talks(t, claiming(t.Context(), x.pairs...), conn).RecvMsg(new(text))
				} else {
					_, err = call(claiming(t.Context(), x.pairs...), conn, method, "x")
				}
				want := x.other
				if method == look {
					want = x.safe
				}
				require.Equal(t, want, status.Code(err), "%s: %v", method, err)
				if want == ok {
					require.Equal(t, 1, served)
					continue
				}
				require.Zero(t, served)
				info, is := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
				require.True(t, is)
				require.Equal(t, "github.com/setpoint-go/setpoint", info.Domain)
				require.Equal(t, x.reason, info.Reason)
				if x.reason == "STALE" {
					require.Equal(t, map[string]string{"lease": "shop", "term": "6", "have": "7"}, info.Metadata)
				}
			}
		})
	}
}

func TestGuardsHaveLimit(t *testing.T) {
	s := newServer(t, fencegrpc.ServerConfig{MaxLeases: 1})
	conn := serving(t, &handlers{}, intercepted(s))
	_, err := call(claiming(t.Context(), "leader-lease", "a", "leader-term", "1"), conn, order, "x")
	require.NoError(t, err)
	_, err = call(claiming(t.Context(), "leader-lease", "b", "leader-term", "1"), conn, order, "x")
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = fencegrpc.NewServer(fencegrpc.ServerConfig{MaxLeases: -1})
	require.EqualError(t, err, "fencegrpc: new server: ServerConfig.MaxLeases is -1, must not be negative")
}

// A stale call is a *fence.StaleError at the client, whichever part of the server has refused it.
func TestClientKnowsStaleTerm(t *testing.T) {
	texts, err := store.Open(store.NewMemory(store.MemoryConfig{}), "Text", store.Config[string]{})
	require.NoError(t, err)
	replica := func() *grpc.ClientConn {
		write := func(ctx context.Context, in string) (string, error) {
			_, err := store.CreateOrUpdate(ctx, texts, "a", func(o *store.Object[string]) error { o.Value = in; return nil })
			return "", err
		}
		return serving(t, &handlers{order: write, talk: func(s grpc.ServerStream) error {
			_, err := write(s.Context(), "streamed")
			return err
		}}, intercepted(newServer(t, fencegrpc.ServerConfig{Lease: shop})), dialing(&fencegrpc.Client{})...)
	}
	a, b := replica(), replica()
	six, seven := leader(t, 6), leader(t, 7)
	_, err = call(six, a, order, "six")
	require.NoError(t, err)
	_, err = call(seven, b, order, "seven")
	require.NoError(t, err)
	for name, attempt := range map[string]func() error{
		"the interceptor": func() error { _, err := call(six, b, order, "six"); return err },
		"the database":    func() error { _, err := call(six, a, order, "six"); return err },
		"of a stream":     func() error { return talks(t, six, a).RecvMsg(new(text)) },
	} {
		err := attempt()
		stale := new(fence.StaleError)
		require.ErrorAs(t, err, &stale, name)
		require.Equal(t, fence.StaleError{Lease: "shop", Term: 6, Have: 7}, *stale, name)
		require.ErrorIs(t, err, fence.ErrStale, name)
		require.True(t, isFenced(err), name)
		require.Equal(t, codes.FailedPrecondition, status.Code(err), name)
	}
	o, err := texts.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "seven", o.Value)
}

func TestOtherErrorsOfHandlerAreKept(t *testing.T) {
	own := status.Error(codes.FailedPrecondition, "the shop is closed")
	odd, err := status.New(codes.FailedPrecondition, "odd").WithDetails(
		&errdetails.ErrorInfo{Domain: "github.com/setpoint-go/setpoint", Reason: "STALE", Metadata: map[string]string{"term": "7", "have": "7"}},
		&errdetails.ErrorInfo{Domain: "other", Reason: "STALE", Metadata: map[string]string{"term": "6", "have": "7"}},
		&errdetails.RequestInfo{})
	require.NoError(t, err)
	for _, want := range []error{own, odd.Err()} {
		conn := serving(t, &handlers{
			order: func(context.Context, string) (string, error) { return "", want },
			talk:  func(grpc.ServerStream) error { return want },
		}, intercepted(newServer(t, fencegrpc.ServerConfig{Lease: shop})), dialing(&fencegrpc.Client{})...)
		_, err := call(leader(t, 7), conn, order, "x")
		require.Equal(t, want.Error(), err.Error())
		require.False(t, isFenced(err))
		err = talks(t, leader(t, 7), conn).RecvMsg(new(text))
		require.Equal(t, want.Error(), err.Error())
		require.False(t, isFenced(err))
	}
}

func TestSuccessorWaitsForWorkInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		began := map[string]time.Duration{}
		work := func(name string) func(ctx context.Context, in string) (string, error) {
			return func(ctx context.Context, in string) (string, error) {
				mu.Lock()
				began[name+in] = time.Since(begin)
				mu.Unlock()
				f, _ := store.FenceFrom(ctx)
				assert.Equal(t, in, fmt.Sprint(f.Term))
				time.Sleep(time.Second)
				return "", nil
			}
		}
		s := newServer(t, fencegrpc.ServerConfig{Lease: shop, Safe: reads})
		conn, stop := serve(&handlers{order: work("order "), look: work("look ")}, intercepted(s), dialing(&fencegrpc.Client{})...)
		defer stop()
		var all sync.WaitGroup
		do := func(method string, term uint64, want codes.Code, timeout time.Duration) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(leader(t, term), timeout)
				defer cancel()
				_, err := call(ctx, conn, method, fmt.Sprint(term))
				assert.Equal(t, want, status.Code(err), "%s %d", method, term)
			})
			time.Sleep(100 * time.Millisecond)
		}
		do(order, 1, codes.OK, time.Minute)
		do(look, 2, codes.OK, time.Minute)
		do(order, 2, codes.DeadlineExceeded, 200*time.Millisecond) // while it waits
		do(order, 2, codes.OK, time.Minute)
		time.Sleep(800 * time.Millisecond)
		do(look, 3, codes.OK, time.Minute)
		do(order, 3, codes.OK, time.Minute)
		all.Wait()
		assert.Equal(t, map[string]time.Duration{
			"order 1": 0, "look 2": time.Second, "order 2": time.Second, "look 3": 2 * time.Second, "order 3": 2 * time.Second,
		}, began)
	})
}

// A former leader is suspended, and its stream is open. The next call of its handler ends with an error.
func TestStreamOfFormerLeaderEndsForSuccessor(t *testing.T) {
	wrapped := func(err error) error { return status.Error(codes.Internal, err.Error()) }
	for name, handle := range map[string]func(s grpc.ServerStream) error{
		"it receives": func(s grpc.ServerStream) error {
			for {
				if err := s.RecvMsg(new(text)); err != nil {
					assert.ErrorIs(t, err, fence.ErrStale)
					return err
				}
			}
		},
		"it sends": func(s grpc.ServerStream) error {
			for {
				if err := s.SendMsg(wrapperspb.String(string(make([]byte, 10_000)))); err != nil {
					return wrapped(err)
				}
			}
		},
		"it works": func(s grpc.ServerStream) error {
			<-s.Context().Done()
			err := s.RecvMsg(new(text))
			assert.ErrorIs(t, err, fence.ErrStale)
			assert.ErrorIs(t, s.SendMsg(new(text)), fence.ErrStale)
			return wrapped(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, fencegrpc.ServerConfig{Lease: shop})
				var returned, began time.Time
				begin := time.Now()
				conn, stop := serve(&handlers{
					talk: func(s grpc.ServerStream) error {
						f, _ := store.FenceFrom(s.Context())
						assert.Equal(t, store.Fence{Lease: "shop", Term: 1}, f)
						err := handle(s)
						time.Sleep(time.Second)
						returned = time.Now()
						return err
					},
					order: func(context.Context, string) (string, error) { began = time.Now(); return "", nil },
				}, intercepted(s), dialing(&fencegrpc.Client{})...)
				defer stop()
				first := talks(t, leader(t, 1), conn)
				require.NoError(t, first.SendMsg(wrapperspb.String("hello")))
				time.Sleep(time.Minute)
				_, err := call(leader(t, 2), conn, order, "x")
				require.NoError(t, err)
				assert.Equal(t, time.Minute+time.Second, began.Sub(begin))
				assert.Equal(t, began, returned)
				for err == nil {
					err = first.RecvMsg(new(text))
				}
				stale := new(fence.StaleError)
				require.ErrorAs(t, err, &stale)
				require.Equal(t, fence.StaleError{Lease: "shop", Term: 1, Have: 2}, *stale)
			})
		})
	}
}

func TestStreamThatReadsDelaysNoSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, fencegrpc.ServerConfig{Lease: shop, Safe: func(method string) bool { return method == talk }})
		conn, stop := serve(&handlers{talk: func(s grpc.ServerStream) error {
			f, _ := store.FenceFrom(s.Context())
			assert.Equal(t, store.Fence{Lease: "shop", Term: 1}, f)
			m := new(text)
			for s.RecvMsg(m) == nil {
				assert.NoError(t, s.SendMsg(m))
			}
			return nil
		}}, intercepted(s), dialing(&fencegrpc.Client{})...)
		defer stop()
		watch := talks(t, leader(t, 1), conn)
		begin := time.Now()
		for range 2 {
			require.NoError(t, watch.SendMsg(wrapperspb.String("hello")))
			m := new(text)
			require.NoError(t, watch.RecvMsg(m))
			require.Equal(t, "hello", m.Value)
			_, err := call(leader(t, 2), conn, order, "x")
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(begin))
		require.NoError(t, watch.CloseSend())
		require.Error(t, watch.RecvMsg(new(text)))
	})
}

// The stream of a client that goes away ends as without the interceptor.
func TestStreamEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, fencegrpc.ServerConfig{Lease: shop})
		ended := make(chan error, 1)
		conn, stop := serve(&handlers{talk: func(s grpc.ServerStream) error {
			err := s.RecvMsg(new(text))
			ended <- err
			return err
		}}, intercepted(s), dialing(&fencegrpc.Client{})...)
		defer stop()
		ctx, cancel := context.WithCancel(leader(t, 1))
		first := talks(t, ctx, conn)
		synctest.Wait()
		cancel()
		require.Error(t, first.RecvMsg(new(text)))
		err := <-ended
		require.True(t, errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled, err)
	})
}
