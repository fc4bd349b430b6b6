package balancer_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

// patience bounds what takes no time unless something is broken.
const patience = 20 * time.Second

// backend listens and hands each connection to serve, in a goroutine of its own.
func backend(t *testing.T, serve func(*net.TCPConn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	// Accepts; the cleanup ends it and waits for it and for what it has begun.
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// named is a backend that says its name and then returns whatever it is sent.
func named(t *testing.T, name string) string {
	t.Helper()
	return backend(t, func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name+"\n"); err == nil {
			_, _ = io.Copy(c, c)
		}
	})
}

// dead returns an address without a listener.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// listen returns a balancer that drains when the test is over, and leaves nothing behind.
func listen(t *testing.T, cfg balancer.Config, backends ...string) *balancer.Balancer {
	t.Helper()
	b, err := balancer.Listen("127.0.0.1:0", cfg)
	require.NoError(t, err)
	b.SetBackends(backends)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
		nothingRuns(t)
	})
	return b
}

// nothingRuns fails the test when a goroutine of a balancer goes on. One that has nothing left but to return may take
// a moment for that.
func nothingRuns(t *testing.T) {
	t.Helper()
	stacks := ""
	for late := time.Now().Add(patience); time.Now().Before(late); runtime.Gosched() {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "webapp/balancer.") {
			return
		}
	}
	t.Errorf("goroutines are leaked:\n%s", stacks)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// answer returns the first line that a connection gives, "" when it gives none and ends.
func answer(t *testing.T, c net.Conn) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := c.Read(b)
		switch {
		case err != nil:
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			return string(line)
		case n == 1 && b[0] == '\n':
			return string(line)
		case n == 1:
			line = append(line, b[0])
		}
	}
}

// ask returns the backend that answers a new connection, or "" if none does.
func ask(t *testing.T, addr string) string {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	return answer(t, c)
}

// talks reports whether what is sent comes back.
func talks(t *testing.T, c net.Conn) bool {
	t.Helper()
	_, err := io.WriteString(c, "ping\n")
	return err == nil && answer(t, c) == "ping"
}

// refuses requires that connections are refused.
func refuses(t *testing.T, addr string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err == nil {
		c.Close()
	}
	require.Error(t, err)
}
