//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package replica_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/replica"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		os.Exit(replica.Main(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for replicas: under the race detector each would take a second to exit
	os.Exit(m.Run())
}

// process is a replica that runs.
type process struct {
	*exec.Cmd
	record string        // path
	addr   string        // where it listens
	exited chan struct{} // closed when it has exited
}

// start starts a replica with a record and waits until it says that it listens.
func start(t *testing.T) *process {
	t.Helper()
	record := create(t)
	lock(t, record)
	p := &process{
		Cmd:    exec.Command(os.Args[0], "replica", "-id", "a-1", "-app", "a", "-message", "hello", "-record", "3"),
		record: record.Name(),
		exited: make(chan struct{}),
	}
	p.ExtraFiles = []*os.File{record}
	log, err := p.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	require.NoError(t, record.Close())

	lines := bufio.NewReader(log)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`replica listens.*port=(\d+)`).FindStringSubmatch(line)
	require.NotNil(t, found, line)
	p.addr = "127.0.0.1:" + found[1]
	// Reads the log, which is at its end when the process has exited, and takes the exit status. The cleanup waits.
	go func() {
		defer close(p.exited)
		_, _ = io.Copy(io.Discard, lines)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.exited
	})
	return p
}

func create(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "record"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func lock(t *testing.T, f *os.File) {
	t.Helper()
	require.NoError(t, tryLock(f))
}

func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func get(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestReplicaReportsItsIdentity(t *testing.T) {
	p := start(t)
	status, body := get(t, p.addr, "/")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, fmt.Sprintf("hello\napp=a id=a-1 pid=%d\n", p.Process.Pid), body)
	status, body = get(t, p.addr, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "a-1\n", body)
	status, _ = get(t, p.addr, "/elsewhere")
	require.Equal(t, http.StatusNotFound, status)

	record, err := os.ReadFile(p.record)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("{\"pid\":%d,\"port\":%s}\n", p.Process.Pid, strings.TrimPrefix(p.addr, "127.0.0.1:")), string(record))
}

func TestLockIsHeldUntilProcessDies(t *testing.T) {
	p := start(t)
	other, err := os.Open(p.record)
	require.NoError(t, err)
	defer other.Close()
	require.ErrorIs(t, tryLock(other), syscall.EWOULDBLOCK)
	require.NoError(t, p.Process.Kill())
	<-p.exited
	require.NoError(t, tryLock(other))
}

func TestChildrenDoNotInheritRecord(t *testing.T) {
	p := start(t)
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/3", p.Process.Pid))
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	var flags int
	_, err = fmt.Sscanf(string(info[strings.Index(string(info), "flags:"):]), "flags: %o", &flags)
	require.NoError(t, err)
	require.NotZero(t, flags&syscall.O_CLOEXEC)
}

func TestSignalExitsWithStatusZero(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			p := start(t)
			require.NoError(t, p.Process.Signal(s))
			<-p.exited
			require.Equal(t, "exit status 0", p.ProcessState.String())
		})
	}
}

func TestReplicaExitsWhenRecordIsRemoved(t *testing.T) {
	p := start(t)
	require.NoError(t, os.Rename(p.record, p.record+"-renamed"))
	status, _ := get(t, p.addr, "/")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, os.Remove(p.record+"-renamed"))
	<-p.exited
	require.Equal(t, "exit status 0", p.ProcessState.String())
}

func TestDrainFinishesRequestInFlight(t *testing.T) {
	p := start(t)
	c, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	answers := bufio.NewReader(c)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "it is being served")

	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	for refused := false; !refused; {
		other, err := net.Dial("tcp", p.addr)
		if refused = err != nil; !refused {
			other.Close()
		}
	}
	_, err = io.WriteString(c, "body")
	require.NoError(t, err)
	answer, err := io.ReadAll(answers)
	require.NoError(t, err)
	require.Contains(t, string(answer), "\r\n\r\nhello\napp=a id=a-1")
	<-p.exited
	require.Equal(t, "exit status 0", p.ProcessState.String())
}

func TestEndlessRequestIsCut(t *testing.T) {
	record := create(t)
	fd, err := syscall.Dup(int(record.Fd())) // Run closes it
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begun, gone := make(chan struct{}), make(chan struct{})
	endless := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	logs, log := io.Pipe()
	ran := make(chan error, 1)
	// Run blocks; cancel ends it, and the test receives its result.
	go func() {
		ran <- replica.Run(ctx, fd, endless, time.Millisecond, slog.New(slog.NewTextHandler(log, nil)))
		log.Close()
	}()
	lines := bufio.NewReader(logs)
	_, err = lines.ReadString('\n') // it listens
	require.NoError(t, err)
	var pid, port int
	content, err := os.ReadFile(record.Name())
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(content), `{"pid":%d,"port":%d}`, &pid, &port)
	require.NoError(t, err)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	<-begun

	cancel()
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), "replica cut its last connections")
	require.NoError(t, <-ran)
	<-gone
}

func TestStartErrorsNameTheReason(t *testing.T) {
	mine, theirs := create(t), create(t)
	lock(t, theirs)
	taken, err := os.OpenFile(theirs.Name(), os.O_RDWR, 0)
	require.NoError(t, err)
	defer taken.Close()
	readOnly, err := os.Open(mine.Name())
	require.NoError(t, err)
	defer readOnly.Close()
	for _, test := range []struct {
		name   string
		args   string
		record *os.File
		status int
		want   string
	}{
		{"an ID is required", "-app a", nil, 2, "usage: replica -id ID"},
		{"there is nothing but flags", "-id a-1 more", nil, 2, "usage: replica -id ID"},
		{"an unknown flag", "-id a-1 -color blue", nil, 2, "flag provided but not defined: -color"},
		{"a record that is not open", "-id a-1 -record 77", nil, 1, "replica: lock record: bad file descriptor"},
		{"a record that another process holds", "-id a-1 -record 3", taken, 1, "replica: lock record: resource temporarily unavailable"},
		{"a record that cannot be written", "-id a-1 -record 3", readOnly, 1, "replica: write record:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"replica"}, strings.Fields(test.args)...)...)
			if test.record != nil {
				cmd.ExtraFiles = []*os.File{test.record}
			}
			output, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, test.status, cmd.ProcessState.ExitCode())
			require.Contains(t, string(output), test.want)
		})
	}
}
