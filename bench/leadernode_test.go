//go:build unix

package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientgo "k8s.io/client-go/tools/leaderelection"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// nodeVariable makes a process of the test binary a node.
const nodeVariable = "BENCH_LEADER_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		var spec nodeSpec
		err := json.Unmarshal([]byte(text), &spec)
		if err == nil {
			err = spec.run()
		}
		if err != nil {
			fmt.Println("failed:", err)
		}
		return
	}
	os.Exit(m.Run())
}

// nodeSpec configures a node.
type nodeSpec struct {
	Setpoint bool   // or else client-go
	Name     string // one each
	URL      string // of the register, through a proxy
}

// short are the durations of nodes: the usual ones, five times as fast.
var short = periods{usual.lease / 5, usual.renew / 5, usual.retry / 5}

// run competes, with ReleaseOnCancel, until the parent is gone. A node of client-go ends when it has led.
func (s nodeSpec) run() error {
	// Ends with the parent, and with it the node.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	store := remote(s.URL)
	if s.Setpoint {
		e, err := leaderelect.New(leaderelect.Config{
			Store: store, Key: leaseKey, Identity: s.Name, ReleaseOnCancel: true,
			LeaseDuration: short.lease, RenewDeadline: short.renew, RetryPeriod: short.retry,
			Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
				act(ctx, l.Err)
				return nil
			},
		})
		if err != nil {
			return err
		}
		return e.Run(context.Background())
	}
	e, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: &lock{store: store, identity: s.Name}, Name: leaseKey, ReleaseOnCancel: true,
		LeaseDuration: short.lease, RenewDeadline: short.renew, RetryPeriod: short.retry,
		Callbacks: clientgo.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { act(ctx, ctx.Err) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	e.Run(context.Background())
	return nil
}

// act is the work of a leader: it prints the time repeatedly, as long as it may.
func act(ctx context.Context, may func() error) {
	for ctx.Err() == nil && may() == nil {
		fmt.Println(time.Now().UnixNano())
		time.Sleep(5 * time.Millisecond)
	}
}

// remote is the URL of a register that serveRegister serves, as a store.
type remote string

func (r remote) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	return r.call(ctx, "get", leaderelect.Entry{Key: key})
}

func (r remote) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return r.call(ctx, "create", e)
}

func (r remote) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return r.call(ctx, "update", e)
}

func (r remote) call(ctx context.Context, op string, e leaderelect.Entry) (leaderelect.Entry, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return leaderelect.Entry{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(r)+"/"+op, bytes.NewReader(body))
	if err != nil {
		return leaderelect.Entry{}, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return leaderelect.Entry{}, err
	}
	defer reply.Body.Close()
	switch reply.StatusCode {
	case http.StatusOK:
		e = leaderelect.Entry{}
		err = json.NewDecoder(reply.Body).Decode(&e)
	case http.StatusNotFound:
		err = leaderelect.ErrNotFound
	case http.StatusConflict:
		err = leaderelect.ErrConflict
	default:
		err = fmt.Errorf("the register says %s", reply.Status)
	}
	return e, err
}

// serveRegister serves a store to remotes.
func serveRegister(store leaderelect.LeaseStore) http.Handler {
	mux := http.NewServeMux()
	serve := func(op string, f func(context.Context, leaderelect.Entry) (leaderelect.Entry, error)) {
		mux.HandleFunc("POST /"+op, func(w http.ResponseWriter, r *http.Request) {
			var e leaderelect.Entry
			err := json.NewDecoder(r.Body).Decode(&e)
			if err == nil {
				e, err = f(context.WithoutCancel(r.Context()), e)
			}
			if err != nil {
				http.Error(w, err.Error(), statusOf(err))
				return
			}
			_ = json.NewEncoder(w).Encode(e) // the client may be gone
		})
	}
	serve("get", func(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
		return store.Get(ctx, e.Key)
	})
	serve("create", store.Create)
	serve("update", store.Update)
	return mux
}

// statusOf returns the HTTP status for err.
func statusOf(err error) int {
	switch {
	case errors.Is(err, leaderelect.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, leaderelect.ErrConflict):
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}

// node is a process that competes.
type node struct {
	process *exec.Cmd
	proxy   *proxy
	over    chan struct{} // closed when it has ended and its output was read

	mu sync.Mutex
	// mu guards the following.
	acts    []time.Time
	failure string
}

// startNode starts a node that reaches the register through its own proxy.
func startNode(t testing.TB, spec nodeSpec, register string) *node {
	t.Helper()
	n := &node{proxy: newProxy(t, register), over: make(chan struct{})}
	spec.URL = "http://" + n.proxy.addr()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	n.process = exec.Command(os.Args[0])
	n.process.Env = append(os.Environ(), nodeVariable+"="+string(text))
	out, err := n.process.StdoutPipe()
	require.NoError(t, err)
	_, err = n.process.StdinPipe() // closed when this process ends
	require.NoError(t, err)
	require.NoError(t, n.process.Start())
	go func() { // ends with the node
		defer close(n.over)
		n.read(out)
		_ = n.process.Wait()
	}()
	t.Cleanup(func() {
		_ = n.process.Process.Signal(syscall.SIGKILL)
		<-n.over
	})
	return n
}

// read reads the output of a node.
func (n *node) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		nanos, err := strconv.ParseInt(lines.Text(), 10, 64)
		n.mu.Lock()
		if err == nil {
			n.acts = append(n.acts, time.Unix(0, nanos))
		} else {
			n.failure = lines.Text()
		}
		n.mu.Unlock()
	}
}

// actions returns when the node has acted so far.
func (n *node) actions(t testing.TB) []time.Time {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Empty(t, n.failure)
	return n.acts
}

// awaitAction waits until the node has acted, and returns when that was.
func (n *node) awaitAction(t testing.TB) time.Time {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if acts := n.actions(t); len(acts) > 0 {
			return acts[0]
		}
	}
	t.Fatal("a node does not lead within a minute")
	return time.Time{}
}

func (n *node) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, n.process.Process.Signal(s))
}
