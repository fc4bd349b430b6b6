//go:build linux

package servertest_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

const envTeller = "SERVERTEST_TELLER"

// TestMain makes the test binary a server that says what time it is, if the environment says so.
func TestMain(m *testing.M) {
	if addr := os.Getenv(envTeller); addr != "" {
		tellTime(addr)
	}
	os.Exit(m.Run())
}

// times are the clocks of a process.
type times struct {
	Wall time.Time
	Runs time.Duration
}

func tellTime(addr string) {
	begin := time.Now()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		_ = json.NewEncoder(c).Encode(times{time.Now(), time.Since(begin)})
		_ = c.Close()
	}
}

func TestServerClockIsSkewed(t *testing.T) {
	addr := servertest.FreeAddr(t)
	read := func() (now times, err error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return now, err
		}
		defer func() { _ = c.Close() }()
		return now, json.NewDecoder(c).Decode(&now)
	}
	s := servertest.Start(t, addr, func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envTeller+"="+addr)
		return servertest.OwnClock(t, c)
	}, func() error { _, err := read(); return err })
	isWrongBy := func(wrong time.Duration) {
		t.Helper()
		now, err := read()
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now().Add(wrong), now.Wall, time.Minute)
		assert.Less(t, now.Runs, time.Minute, "the measuring clock is unaffected")
	}
	isWrongBy(0)
	for _, wrong := range []time.Duration{time.Hour, -time.Hour, 0, time.Hour} {
		s.SetClock(wrong)
		isWrongBy(wrong)
	}
	s.Restart()
	isWrongBy(time.Hour)
}
