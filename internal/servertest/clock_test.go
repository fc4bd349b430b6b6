//go:build linux

package servertest_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

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
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Until(now.Wall) - wrong; got.Abs() > time.Minute {
			t.Errorf("the wall clock of the process is off by %v, want %v: %v", got+wrong, wrong, now.Wall)
		}
		if now.Runs >= time.Minute {
			t.Errorf("now.Runs = %v, want less than %v: the measuring clock is unaffected", now.Runs, time.Minute)
		}
	}
	isWrongBy(0)
	for _, wrong := range []time.Duration{time.Hour, -time.Hour, 0, time.Hour} {
		s.SetClock(wrong)
		isWrongBy(wrong)
	}
	s.Restart()
	isWrongBy(time.Hour)
}
