//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

const record = `{"app":"app","revision":"r1","message":"hello","created":"2024-02-29T12:00:00Z"}` + "\n"

func TestOrphanIsAdopted(t *testing.T) {
	w := run(t, machine.Config{})
	startElsewhere(t, w.dir, "")
	r := find(w.list(), "orphan")
	require.Equal(t, "app", r.App)
	for r.State != machine.Running { // there is no report: it is not a child of ours
		r = find(w.list(), "orphan")
	}
	require.NoError(t, w.Probe(context.Background(), r))
	w.ReportHealth("orphan", nil)
	require.Equal(t, machine.Ready, find(w.list(), "orphan").State)
	require.ErrorIs(t, w.Start(context.Background(), spec("orphan")), machine.ErrExists)
	require.NoError(t, w.Stop(context.Background(), "orphan"))
	w.awaitDeath("orphan")
	require.Empty(t, w.list())
	require.Empty(t, w.files())
}

func TestSuspendedReplicaOutlivesStarter(t *testing.T) {
	w := run(t, machine.Config{})
	starter := exec.Command(os.Args[0], "starter", w.dir, "")
	output, err := starter.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, starter.Start())
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	r := find(w.list(), "orphan")
	for r.State != machine.Running {
		r = find(w.list(), "orphan")
	}
	suspend(t, r.PID)
	require.NoError(t, starter.Process.Kill())
	require.Error(t, starter.Wait())
	signal(t, r.PID, syscall.SIGCONT)
	require.NoError(t, w.Probe(context.Background(), r))
}

func TestCrashBeforeProcessStartsLeavesStaleRecord(t *testing.T) {
	w := run(t, machine.Config{})
	startElsewhere(t, w.dir, "in the middle")
	require.Equal(t, []string{"orphan.replica.json", "orphan.replica.log"}, w.files())
	require.Empty(t, w.list())
	require.Empty(t, w.files())
}

func TestListRemovesOnlyStaleRecords(t *testing.T) {
	w := run(t, machine.Config{})
	w.write("a-1.replica.json", record+`{"pid":1,"port":80}`+"\n")
	w.write("a-1.replica.log", "log")
	w.write("a-2.replica.json", "")
	w.write("a-3.replica.json", "not a record")
	w.write("shop.json", `{"name": "shop"}`)
	w.write("-.replica.json", record)
	require.NoError(t, os.Mkdir(w.path("a-4.replica.json"), 0o700))
	require.NoError(t, os.Symlink(w.path("shop.json"), w.path("a-5.replica.json")))
	require.NoError(t, syscall.Mkfifo(w.path("a-6.replica.json"), 0o600))
	require.Empty(t, w.list())
	require.Equal(t, []string{"-.replica.json", "a-4.replica.json", "a-5.replica.json", "a-6.replica.json", "shop.json"}, w.files())
	require.Empty(t, w.log.String())
	require.ErrorContains(t, w.Start(context.Background(), spec("a-4")), "a-4.replica.json: not a regular file")
	require.ErrorContains(t, w.Start(context.Background(), spec("a-6")), "a-6.replica.json: not a regular file")
	require.ErrorContains(t, w.Start(context.Background(), spec("a-5")), "other processes keep getting in the way")
}

func TestPartialRecordMeansStartingReplica(t *testing.T) {
	w := run(t, machine.Config{})
	created := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for i, test := range []struct {
		content string
		want    machine.Replica
	}{
		{"", machine.Replica{State: machine.Starting}},
		{record[:10], machine.Replica{State: machine.Starting}},
		{record, machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, State: machine.Starting}},
		{record + `{"pid":7,"por`, machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, State: machine.Starting}},
		{record + `{"pid":7,"port":80}`, machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, State: machine.Starting}},
		{record + `{"pid":7}` + "\n", machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, PID: 7, State: machine.Starting}},
		{record + `{"pid":7,"po{"pid":7}` + "\n" + `{"port":80}` + "\n", machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, Port: 80, State: machine.Running}},
		{record + `{"pid":7,"port":"x"}` + "\n", machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, State: machine.Starting}},
		{record + `{"pid":7}` + "\n" + `{"pid":7,"port":80}` + "\n", machine.Replica{App: "app", Revision: "r1", Message: "hello", Created: created, PID: 7, Port: 80, State: machine.Running}},
	} {
		t.Run(fmt.Sprintf("%q", test.content), func(t *testing.T) {
			id := fmt.Sprintf("a-%d", i)
			test.want.ID = id
			w.write(id+".replica.json", test.content)
			process := w.hold(id + ".replica.json")
			require.Equal(t, []machine.Replica{test.want}, w.list())
			if test.want.PID == 0 {
				require.ErrorIs(t, w.Stop(context.Background(), id), machine.ErrNoPID)
			}
			require.NoError(t, process.Close())
			require.Empty(t, w.list())
		})
	}
}

func TestSignalGoesOnlyToReplica(t *testing.T) {
	w := run(t, machine.Config{})
	innocent := exec.Command("cat")
	in, err := innocent.StdinPipe()
	require.NoError(t, err)
	out, err := innocent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, innocent.Start())
	w.write("a-1.replica.json", record+fmt.Sprintf("{\"pid\":%d,\"port\":80}\n", innocent.Process.Pid))
	require.NoError(t, w.Stop(context.Background(), "a-1"))
	require.NoError(t, w.Kill(context.Background(), "a-1"))
	require.NoError(t, w.Kill(context.Background(), "../a-1"))
	_, err = io.WriteString(in, "alive")
	require.NoError(t, err)
	require.NoError(t, in.Close())
	output, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, "alive", string(output))
	require.NoError(t, innocent.Wait())
}

func TestProcessWithoutRecordLockGetsNoSignal(t *testing.T) {
	w := run(t, machine.Config{Grace: time.Nanosecond})
	innocent := exec.Command("sleep", "60")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w.write("a-0.replica.json", record)
	reader, err := os.Open(w.path("a-0.replica.json")) // it has a record where a replica has its own, but not the lock
	require.NoError(t, err)
	defer reader.Close()
	innocent.ExtraFiles = []*os.File{reader}
	require.NoError(t, innocent.Start())
	t.Cleanup(func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait()
	})
	other := w.running("other") // which holds a record, but another one
	for i, pid := range []int{innocent.Process.Pid, -innocent.Process.Pid, os.Getpid(), other.PID} {
		id := fmt.Sprintf("a-%d", i)
		w.write(id+".replica.json", record+fmt.Sprintf("{\"pid\":%d,\"port\":80}\n", pid))
		holder := w.hold(id + ".replica.json") // of the test, at another descriptor than that of a replica
		for _, end := range []func(context.Context, string) error{w.Stop, w.Kill} {
			require.ErrorContains(t, end(context.Background(), id), fmt.Sprintf("process %d does not hold", pid))
		}
		require.Equal(t, machine.Running, find(w.list(), id).State, "nothing was done to it")
		require.NoError(t, holder.Close())
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(innocent.Process.Pid, &status, syscall.WNOHANG, nil)
	require.NoError(t, err)
	require.Zero(t, pid, "it is alive")
	require.NoError(t, w.Probe(context.Background(), other))
}

func TestRemovedDirectoryIsRecreated(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1")
	require.NoError(t, os.RemoveAll(w.dir))
	require.Empty(t, w.list(), "a replica without a record ends by itself")
	w.running("a-1")
	require.NoError(t, w.StopAll(context.Background()))
}

func TestStartRejectsInvalidReplicas(t *testing.T) {
	w := run(t, machine.Config{})
	for _, id := range []string{"", ".", "..", "a/b", "-a", ".a", "a b", "ä", strings.Repeat("a", 101)} {
		require.ErrorIs(t, w.Start(context.Background(), machine.Spec{ID: id}), machine.ErrInvalid, id)
	}
	require.ErrorIs(t, w.Start(context.Background(), machine.Spec{ID: "a", Message: strings.Repeat("m", 40_000)}), machine.ErrInvalid)
	require.ErrorIs(t, w.Start(context.Background(), machine.Spec{ID: "a", Message: "\x00"}), syscall.EINVAL)
	require.Empty(t, w.files())
	w.start(strings.Repeat("Z", 97) + "-_.")
}

func TestFailedStartLeavesNothing(t *testing.T) {
	w := run(t, machine.Config{Command: func(machine.Spec) *exec.Cmd { return exec.Command("/nowhere/to/be/found") }})
	require.ErrorIs(t, w.Start(context.Background(), spec("a-1")), os.ErrNotExist)
	require.Empty(t, w.files())
	require.Empty(t, w.list())
}

func TestReplicaDyingAtStartIsSeenDead(t *testing.T) {
	w := run(t, machine.Config{Command: func(machine.Spec) *exec.Cmd { return exec.Command("false") }})
	for i := range 10 {
		w.start(fmt.Sprintf("a-%d", i))
	}
	w.untilGone()
}

func TestIDIsStartedOnce(t *testing.T) {
	w := run(t, machine.Config{})
	other := runIn(t, w.dir, machine.Config{})
	w.write("a-1.replica.json", record) // stale: both want to make way
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			m := w.Machine
			if i%2 == 0 {
				m = other.Machine
			}
			errs[i] = m.Start(context.Background(), spec("a-1"))
		})
	}
	wg.Wait()
	started := 0
	for _, err := range errs {
		if err == nil {
			started++
		} else {
			require.ErrorIs(t, err, machine.ErrExists)
		}
	}
	require.Equal(t, 1, started)
	require.Len(t, w.list(), 1)
}

func TestOpenRemovesLeftoversOfCrash(t *testing.T) {
	w := run(t, machine.Config{})
	w.write(".dead.replica.new", record)
	w.write(".alive.replica.new", record)
	w.write(".other", record)
	w.hold(".alive.replica.new")
	_, err := machine.Open(w.dir, machine.Config{})
	require.NoError(t, err)
	require.Equal(t, []string{".alive.replica.new", ".other"}, w.files())
}

func TestLateRemoverLeavesNextRecordAlone(t *testing.T) {
	w := run(t, machine.Config{})
	w.write("a-1.replica.json", record)
	remove, err := machine.RemoverOf(w.dir, "a-1")
	require.NoError(t, err)
	w.start("a-1") // which makes way, too
	require.NoError(t, remove())
	require.Len(t, w.list(), 1)

	remove, err = machine.RemoverOf(w.dir, "a-1")
	require.NoError(t, err)
	require.NoError(t, w.Kill(context.Background(), "a-1"))
	w.untilGone()
	require.NoError(t, remove())
}

func TestSuspendedRemoverBlocksNobody(t *testing.T) {
	w := run(t, machine.Config{})
	w.write("a-1.replica.json", record)
	remover := w.hold(".") // the lock that it would hold
	require.Empty(t, w.list())
	require.Len(t, w.files(), 1)
	require.Error(t, w.Start(context.Background(), spec("a-1")))
	w.start("a-2")
	require.NoError(t, remover.Close())
	require.Len(t, w.list(), 1)
	w.start("a-1")
}

// In TestConcurrentListsAreCorrect, several Machines list, and others open, while one starts and stops replicas. No
// list may fail or report a dead replica as alive. No list may miss a replica for which Start has returned and Stop
// was not called.
func TestConcurrentListsAreCorrect(t *testing.T) {
	w := run(t, machine.Config{})
	var mu sync.Mutex
	phase := make(map[string]int) // by ID: 1 alive, 2 dying, 3 dead
	snapshot := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(phase)
	}
	set := func(id string, p int) {
		mu.Lock()
		defer mu.Unlock()
		phase[id] = p
	}
	done := make(chan struct{})
	var listers, starters sync.WaitGroup
	for range 2 {
		m, err := machine.Open(w.dir, machine.Config{})
		require.NoError(t, err)
		listers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := machine.Open(w.dir, machine.Config{}); err != nil { // sweeps
					t.Error(err)
				}
			}
		})
		listers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				before := snapshot()
				rs, err := m.List(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				after := snapshot()
				for id, p := range after {
					there := find(rs, id).ID != ""
					if p == 1 && before[id] == 1 && !there {
						t.Errorf("%s is alive, and not in the list", id)
					}
					if before[id] == 3 && there {
						t.Errorf("%s is dead, and in the list", id)
					}
				}
				for _, r := range rs {
					if r.App != "app" {
						t.Errorf("a record that is not whole: %+v", r)
					}
				}
			}
		})
	}
	for i := range 3 {
		starters.Go(func() {
			for n := range 6 {
				id := fmt.Sprintf("a-%d-%d", i, n)
				if err := w.Start(context.Background(), spec(id)); err != nil {
					t.Error(err)
					return
				}
				set(id, 1)
				set(id, 2)
				if err := w.Kill(context.Background(), id); err != nil {
					t.Error(err)
				}
				w.awaitDeath(id)
				set(id, 3)
			}
		})
	}
	starters.Wait()
	close(done)
	listers.Wait()
	w.untilGone()
}
