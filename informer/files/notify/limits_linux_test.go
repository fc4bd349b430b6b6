package notify_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/informer/files/notify"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// A user namespace has limits of its own.
func TestExhaustedLimitsAreReportedOnceAndTheIntervalDecides(t *testing.T) {
	const inside = "SETPOINT_NOTIFY_LIMIT"
	if limit := os.Getenv(inside); limit != "" {
		require.NoError(t, os.WriteFile("/proc/sys/user/"+limit, []byte("0"), 0))
		followWithoutWatches(t)
		return
	}
	for _, limit := range []string{"max_inotify_watches", "max_inotify_instances"} {
		t.Run(limit, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestExhaustedLimits", "-test.v")
			cmd.Env = append(os.Environ(), inside+"="+limit)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) {
				t.Skip("no user namespaces: ", err)
			}
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS")
		})
	}
}

func followWithoutWatches(t *testing.T) {
	w := &world{t: t, dir: looptest.MemoryDir(t), calls: make(chan string, 10)}
	w.write("a", 1)
	src, err := files.New(w.dir, decode, nameOf, files.Config[site]{Interval: 20 * time.Millisecond, Settle: time.Millisecond})
	require.NoError(t, err)
	in, err := informer.New(src, nameOf, informer.Config{})
	require.NoError(t, err)
	_, err = in.AddHandler(informer.Handler[string, site]{OnAdd: func(s site, _ bool) { w.calls <- s.Name }})
	require.NoError(t, err)
	looptest.Start(t, in.Run)
	w.sees("a")
	reported := make(chan error, 10)
	looptest.Start(t, func(ctx context.Context) error {
		return notify.Run(ctx, src, notify.Config{OnError: func(err error) { reported <- err }})
	})
	t.Log(<-reported)
	w.write("d/b", 1)
	w.sees("b")
	w.write("e/c", 1)
	w.sees("c")
	require.Empty(t, reported)
}
