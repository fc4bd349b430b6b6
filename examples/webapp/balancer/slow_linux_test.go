package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

// silent returns an address that does not answer: its queue of connections is full, and Linux drops later ones.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		c, err := net.DialTimeout("tcp", addr, 20*time.Millisecond)
		if err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Fatalf("err = %v, want a timeout", err)
			}
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
}

func TestSilentBackendIsSkippedAfterDialTimeout(t *testing.T) {
	b := listen(t, balancer.Config{DialTimeout: 20 * time.Millisecond}, silent(t), named(t, "x"))
	if got := ask(t, b.Addr().String()); got != "x" {
		t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, "x")
	}
}

func TestCloseCutsDials(t *testing.T) {
	b := listen(t, balancer.Config{DialTimeout: time.Hour}, silent(t))
	c := dial(t, b.Addr().String())
	for b.Stats().Accepted == 0 {
	}
	closes(t, b, context.Canceled)
	if got := answer(t, c); got != "" {
		t.Fatalf(`answer(t, c) = %q, want ""`, got)
	}
}
