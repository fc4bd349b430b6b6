package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

// silent returns an address that does not answer: its queue of connections is full, and Linux drops later ones.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		c, err := net.DialTimeout("tcp", addr, 20*time.Millisecond)
		if err != nil {
			var timeout net.Error
			require.True(t, errors.As(err, &timeout) && timeout.Timeout(), err)
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
}

func TestSilentBackendIsSkippedAfterDialTimeout(t *testing.T) {
	b := listen(t, balancer.Config{DialTimeout: 20 * time.Millisecond}, silent(t), named(t, "x"))
	require.Equal(t, "x", ask(t, b.Addr().String()))
}

func TestCloseCutsDials(t *testing.T) {
	b := listen(t, balancer.Config{DialTimeout: time.Hour}, silent(t))
	c := dial(t, b.Addr().String())
	for b.Stats().Accepted == 0 {
	}
	closes(t, b, context.Canceled)
	require.Empty(t, answer(t, c))
}
