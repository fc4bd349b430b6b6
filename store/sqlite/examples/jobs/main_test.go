//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// TestMain makes the test binary the program, in a process that a test has started.
func TestMain(m *testing.M) {
	if os.Getenv("JOBS") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, args ...string) *dbtest.Program {
	return dbtest.StartProgram(t, dbtest.NewProgram("JOBS", args...))
}

// A process is killed repeatedly while its jobs run. Each run is done, in order. Only the run in flight may be
// repeated.
func TestJobsResumeAfterKill(t *testing.T) {
	const runs, kills = 40, 2
	file := filepath.Join(t.TempDir(), "jobs.db")
	args := []string{"-db", file, "-interval=1ms", "-lease=1s"}
	done, repeated := map[string]int{}, 0
	var r *dbtest.Program
	note := func(line string) {
		name, text, _ := strings.Cut(line, ": ")
		var run, of int
		_, err := fmt.Sscanf(text, "run %d of %d", &run, &of)
		require.NoError(t, err, line)
		if run == done[name] {
			repeated++
			return
		}
		require.Equal(t, done[name]+1, run, line)
		done[name] = run
	}
	read := func(lines int) {
		t.Helper()
		for range lines {
			select {
			case line, ok := <-r.Lines:
				require.True(t, ok, "the program has ended")
				note(line)
			case <-time.After(30 * time.Second):
				t.Fatal("the program prints nothing")
			}
		}
	}
	for i := range kills {
		r = start(t, append(args, "backup=40", "report=40")[:4+2*min(1, kills-1-i)]...) // the jobs are there already in the last
		read(10)
		require.NoError(t, r.Process.Kill())
		for line := range r.Lines {
			note(line)
		}
		require.ErrorContains(t, r.Wait(), "killed")
	}
	r = start(t, args...)
	for done["backup"] < runs || done["report"] < runs {
		read(1)
	}
	assert.LessOrEqual(t, repeated, 2*kills, "one of each job")

	db, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	records, err := store.Open(db, "Lease", store.Config[storelease.Record]{})
	require.NoError(t, err)
	leases := storelease.New(records, storelease.Config{})
	leader, err := leaderelect.Holder(t.Context(), leases, "jobs")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, leader.Term, uint64(kills+1), "the terms grow from one process to the next")

	require.NoError(t, r.Process.Signal(syscall.SIGTERM))
	for line := range r.Lines {
		t.Errorf("it prints %q after the last run", line)
	}
	require.NoError(t, r.Wait())
	jobs, err := store.Open(db, "Job", store.Config[Job]{})
	require.NoError(t, err)
	for _, name := range []string{"backup", "report"} {
		job, err := jobs.Get(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, runs, job.Value.Status.Done)
	}
}
