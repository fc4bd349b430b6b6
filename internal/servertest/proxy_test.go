//go:build linux

package servertest_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

func TestProxyFaults(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	arrived := make(chan string, 10)
	go func() { // ends with the listener
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				buffer := make([]byte, 100)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					arrived <- string(buffer[:n])
					_, _ = c.Write(buffer[:n])
				}
			}()
		}
	}()
	p := servertest.NewProxy(t, echo.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, text string, patience time.Duration) (string, error) {
		_, err := c.Write([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatalf("c.SetReadDeadline(time.Now().Add(patience)): %v", err)
		}
		buffer := make([]byte, 100)
		n, err := c.Read(buffer)
		return string(buffer[:n]), err
	}
	c := dial()
	got, err := ask(c, "hello", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got != "hello" {
		t.Errorf(`got = %q, want "hello"`, got)
	}
	if got := <-arrived; got != "hello" {
		t.Errorf(`<-arrived = %q, want "hello"`, got)
	}

	p.Stall()
	_, err = ask(c, "stalled", 20*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("err = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if len(arrived) != 0 {
		t.Errorf("len(arrived) = %d, want 0", len(arrived))
	}
	p.Heal()
	if got := <-arrived; got != "stalled" {
		t.Errorf(`<-arrived = %q, want "stalled"`, got)
	}
	got, err = ask(c, "", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got != "stalled" {
		t.Errorf(`got = %q, want "stalled"`, got)
	}

	p.Slow(10 * time.Millisecond)
	begin := time.Now()
	_, err = ask(c, "slow", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Since(begin); got < 20*time.Millisecond {
		t.Errorf("time.Since(begin) = %v, want at least %v", got, 20*time.Millisecond)
	}
	if got := <-arrived; got != "slow" {
		t.Errorf(`<-arrived = %q, want "slow"`, got)
	}
	p.Heal()

	p.CutNextReply()
	_, err = ask(c, "cut", 10*time.Second)
	if err == nil {
		t.Fatal("no error")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("err = %v, want another error than %v", err, os.ErrDeadlineExceeded)
	}
	if got := <-arrived; got != "cut" {
		t.Errorf(`<-arrived = %q, want "cut"`, got)
	}

	c = dial()
	_, err = ask(c, "again", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatalf("c.SetReadDeadline(time.Now().Add(10*time.Second)): %v", err)
	}
	_, err = c.Read(make([]byte, 1))
	if err == nil {
		t.Fatal("no error")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("err = %v, want another error than %v", err, os.ErrDeadlineExceeded)
	}

	c = dial()
	_, err = ask(c, "open", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-arrived; got != "again" {
		t.Errorf(`<-arrived = %q, want "again"`, got)
	}
	if got := <-arrived; got != "open" {
		t.Errorf(`<-arrived = %q, want "open"`, got)
	}
	p.Hang()
	_, err = ask(c, "half-open", 20*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("err = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	got, err = ask(dial(), "new", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got != "new" {
		t.Errorf(`got = %q, want "new"`, got)
	}
	if got := <-arrived; got != "new" {
		t.Errorf(`<-arrived = %q, want "new": but not lost data`, got)
	}
}

func TestSmallDiskIsFullUntilFreed(t *testing.T) {
	d := servertest.NewDisk(t, 1<<20)
	write := func(name string) error { return os.WriteFile(filepath.Join(d.Dir, name), make([]byte, 100_000), 0o600) }
	if err := write("a"); err != nil {
		t.Fatalf(`write("a"): %v`, err)
	}
	d.Fill()
	if err := write("b"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf(`write("b") = %v, want %v`, err, syscall.ENOSPC)
	}
	d.Free()
	if err := write("b"); err != nil {
		t.Fatalf(`write("b"): %v`, err)
	}
}
