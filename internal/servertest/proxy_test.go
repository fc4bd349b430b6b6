//go:build linux

package servertest_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

func TestProxyFaults(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
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
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, text string, patience time.Duration) (string, error) {
		_, err := c.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		buffer := make([]byte, 100)
		n, err := c.Read(buffer)
		return string(buffer[:n]), err
	}
	c := dial()
	got, err := ask(c, "hello", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "hello", got)
	assert.Equal(t, "hello", <-arrived)

	p.Stall()
	_, err = ask(c, "stalled", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Empty(t, arrived)
	p.Heal()
	assert.Equal(t, "stalled", <-arrived)
	got, err = ask(c, "", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "stalled", got)

	p.Slow(30 * time.Millisecond)
	begin := time.Now()
	_, err = ask(c, "slow", 10*time.Second)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond)
	assert.Equal(t, "slow", <-arrived)
	p.Heal()

	p.CutNextReply()
	_, err = ask(c, "cut", 10*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Equal(t, "cut", <-arrived)

	c = dial()
	_, err = ask(c, "again", 10*time.Second)
	require.NoError(t, err)
	p.Cut()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)

	c = dial()
	_, err = ask(c, "open", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "again", <-arrived)
	assert.Equal(t, "open", <-arrived)
	p.Hang()
	_, err = ask(c, "half-open", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	got, err = ask(dial(), "new", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "new", got)
	assert.Equal(t, "new", <-arrived, "but not lost data")
}

func TestSmallDiskIsFullUntilFreed(t *testing.T) {
	d := servertest.NewDisk(t, 1<<20)
	write := func(name string) error { return os.WriteFile(filepath.Join(d.Dir, name), make([]byte, 100_000), 0o600) }
	require.NoError(t, write("a"))
	d.Fill()
	require.ErrorIs(t, write("b"), syscall.ENOSPC)
	d.Free()
	require.NoError(t, write("b"))
}
