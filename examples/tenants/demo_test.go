//go:build linux

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

// asProgram makes the test binary the program, in a process that a test or the demo has started.
const asProgram = "TENANTS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the processes to come: they need not linger for the race detector
	os.Exit(m.Run())
}

// start starts the program, in a process group of its own, and returns its lines.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, lines <-chan string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout+10*time.Second)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env, cmd.Dir = append(os.Environ(), asProgram+"=1"), t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	found := make(chan string, 10_000)
	go func() { // ends with the process and all that it has started
		defer close(found)
		for s := bufio.NewScanner(out); s.Scan(); {
			t.Log(s.Text())
			found <- s.Text()
		}
	}()
	return cmd, found
}

// chapters of the story, in order, and what has to happen in each of them, or, since replicas speak for themselves, a moment later.
var chapters = []string{
	"Three replicas start", "A user inserts a row", "A row that the cloud refuses", "The cloud loses a bucket",
	"One customer inserts 12 rows", "The cloud is down", "kill -9 of the leader", "SIGSTOP of the leader", "All rows are deleted",
	"The replicas stop gracefully", "The cloud is empty",
}

var happens = []string{
	": leads, term 1", "acme/shop Ready: everything is there", `initech/crm Parked: bucket: the cloud says: there is no region "moon"`,
	"initech/crm Ready", "acme/shop/bucket Lost", "globex did not wait", "none was given up", ": leads, term 2", ": leads, term 3",
	"the cloud refuses it: its term 2 is over; globex stays in eu", ": leads no more: leaderelect: lease has expired",
	"acme/shop Gone", "globex/blog Gone", "initech/crm Gone", "umbrella/lab-12 Gone", " 1 of a former leader",
}

// tellsItsStory requires that lines are those of a demo.
func tellsItsStory(t *testing.T, lines <-chan string) {
	t.Helper()
	chapters, happens := slices.Clone(chapters), slices.Clone(happens)
	for line := range lines {
		if len(chapters) > 0 && strings.Contains(line, chapters[0]) {
			chapters = chapters[1:]
		}
		happens = slices.DeleteFunc(happens, func(what string) bool { return strings.Contains(line, what) })
	}
	assert.Empty(t, chapters, "chapters that are missing")
	assert.Empty(t, happens, "changes that do not happen")
}

func TestDemoOutput(t *testing.T) {
	t.Parallel()
	cmd, lines := start(t, "-demo")
	tellsItsStory(t, lines)
	require.NoError(t, cmd.Wait())
}

func TestDemoOutputOnPostgres(t *testing.T) {
	t.Parallel()
	address := "postgres://postgres@" + servertest.Postgres(t, "fsync=off").Addr() + "/postgres?sslmode=disable"
	cmd, lines := start(t, "-demo", "-store", address)
	tellsItsStory(t, lines)
	require.NoError(t, cmd.Wait())
}

// A demo that is interrupted, or killed, leaves no process behind: its output is closed when all of them have ended.
func TestNoProcessOutlivesDemo(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			cmd, lines := start(t, "-demo")
			for line := range lines {
				if strings.Contains(line, "leads, term 1") {
					require.NoError(t, cmd.Process.Signal(s))
				}
			}
			require.Error(t, cmd.Wait())
		})
	}
}

func TestNoSignalGoesToProcessGroup(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid()} {
		assert.ErrorContains(t, suspend(pid), strconv.Itoa(pid)+" is not a process ID")
		assert.ErrorContains(t, resume(pid), strconv.Itoa(pid)+" is not a process ID")
	}
}
