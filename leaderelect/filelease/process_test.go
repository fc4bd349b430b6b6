//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
)

// With these variables, this test binary is a process that increments a counter in a Store: the directory, and how often.
const (
	counterDir   = "FILELEASE_TEST_COUNTER_DIR"
	counterTimes = "FILELEASE_TEST_COUNTER_TIMES"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(counterDir); dir != "" {
		if err := countInto(os.Stdout, dir, os.Getenv(counterTimes)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestKillDuringUpdateLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	s := openFiles(t, looptest.MemoryDir(t))
	_, err := s.Create(context.Background(), leaderelect.Entry{Key: "counter", Value: counterValue(0)})
	require.NoError(t, err)

	for range 12 {
		child := counter(t, s.dir, 1_000_000)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		acked, lines := 0, bufio.NewScanner(out)
		for range 1 + random.IntN(4) {
			require.True(t, lines.Scan())
			acked = atoi(t, lines.Text())
		}
		for range random.IntN(20_000) { // it is in the next update now; kill it anywhere in there
			runtime.Gosched()
		}
		require.NoError(t, child.Process.Kill())
		for lines.Scan() { // the replies before it died
			acked = atoi(t, lines.Text())
		}
		require.Error(t, child.Wait(), "it was killed")

		e, err := s.Get(context.Background(), "counter")
		require.NoError(t, err)
		n := atoi(t, string(e.Value[:bytes.IndexByte(e.Value, '\n')]))
		require.Equal(t, counterValue(n), e.Value, "the value is complete")
		require.Equal(t, uint64(n), e.Term)
		require.GreaterOrEqual(t, n, acked, "every acknowledged write is there")
		require.LessOrEqual(t, n, acked+1, "and at most the one in flight")
	}
}

func TestCompetingProcessesLoseNoUpdate(t *testing.T) {
	t.Parallel()
	const processes, times = 3, 15
	s := openFiles(t, looptest.MemoryDir(t))
	_, err := s.Create(context.Background(), leaderelect.Entry{Key: "counter", Value: counterValue(0)})
	require.NoError(t, err)

	var children []*exec.Cmd
	for range processes {
		child := counter(t, s.dir, times)
		child.Stdout = io.Discard
		require.NoError(t, child.Start())
		children = append(children, child)
	}
	for _, child := range children {
		require.NoError(t, child.Wait())
	}
	e, err := s.Get(context.Background(), "counter")
	require.NoError(t, err)
	assert.Equal(t, uint64(processes*times), e.Term)
}

// counter returns this test binary as a process that increments the counter.
func counter(t *testing.T, dir string, times int) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), counterDir+"="+dir, counterTimes+"="+strconv.Itoa(times))
	child.Stderr = os.Stderr
	return child
}

// countInto increments the counter and writes each number that was acknowledged as a line.
func countInto(w io.Writer, dir, times string) error {
	s, err := filelease.New(dir)
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	for left > 0 {
		e, err := s.Get(context.Background(), "counter")
		if err != nil {
			return err
		}
		e.Term++
		e.Value = counterValue(int(e.Term))
		_, err = s.Update(context.Background(), e)
		if errors.Is(err, leaderelect.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		left--
		fmt.Fprintln(w, e.Term)
	}
	return nil
}

// counterValue returns n, and a page full of bytes that depend on it.
func counterValue(n int) []byte {
	return append([]byte(strconv.Itoa(n)+"\n"), bytes.Repeat([]byte{byte(n)}, 8192)...)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
