//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// modelVariable makes the test of interleavings try all of them. It takes a minute.
const modelVariable = "LEADERELECT_MODEL"

// writeSteps are the steps after which a write can be suspended, in order.
var writeSteps = []string{"looked", "read", "written", "linked", "checked", "synced"}

// chain is what became of the writes of a key: which version each has replaced.
type chain map[string]string

// wrote notes a write that has replaced a version. Two that have replaced the same are a lost update.
func (c chain) wrote(t testing.TB, before, after string) {
	t.Helper()
	require.Empty(t, c[before], "two writes have replaced %q", before)
	c[before] = after
}

// end returns the last version that was acknowledged.
func (c chain) end(from string) string {
	for c[from] != "" {
		from = c[from]
	}
	return from
}

func TestSuspendedWriterBlocksNobodyAndOverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range writeSteps {
		for _, writes := range []int{0, 1, 2, 3, 66, 70} { // with 66, its number has been removed; with 70, also the one after it
			t.Run(fmt.Sprintf("after %q, for %d writes", step, writes), func(t *testing.T) {
				dir := looptest.MemoryDir(t)
				here, there := openFiles(t, dir), openFiles(t, dir)
				first, err := there.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
				require.NoError(t, err)
				all, have := chain{}, first
				reached := false

				// All that the others do happens between two steps of one write.
				here.OnStep(func(now string) {
					if now != step {
						return
					}
					here.OnStep(nil)
					reached = true
					for range writes {
						now, err := there.Get(t.Context(), "lease")
						require.NoError(t, err)
						if now.Version != have.Version { // written by the suspended one
							all.wrote(t, have.Version, now.Version)
						}
						have, err = there.Update(t.Context(), now)
						require.NoError(t, err, "others are blocked")
						all.wrote(t, now.Version, have.Version)
					}
				})
				mine, err := here.Update(t.Context(), leaderelect.Entry{Key: "lease", Version: first.Version, Term: 2})
				switch {
				case err == nil && all[first.Version] == "":
					all.wrote(t, first.Version, mine.Version)
				case err == nil:
					require.Equal(t, mine.Version, all[first.Version], "an overtaken write is acknowledged")
				case errors.Is(err, leaderelect.ErrConflict):
					require.NotEmpty(t, all[first.Version], "a conflict without another writer")
				}
				require.True(t, reached)
				now, err := there.Get(t.Context(), "lease")
				require.NoError(t, err)
				assert.Equal(t, all.end(first.Version), now.Version, "the record is the last that was acknowledged")
				left, err := filepath.Glob(filepath.Join(dir, "lease.d", "*"))
				require.NoError(t, err)
				assert.LessOrEqual(t, len(left), 66, "%q", left)
			})
		}
	}
}

// Two writers run in every interleaving of their steps. A third one writes at each point.
func TestNoInterleavingOfWritersLosesAnUpdate(t *testing.T) {
	t.Parallel()
	n := len(writeSteps) + 2 // the step to its begin, and that to its end
	count, every := 0, 37
	if os.Getenv(modelVariable) == "full" {
		every = 1
	}
	for schedule := range 1 << (2 * n) {
		if ones(schedule) != n {
			continue
		}
		if count++; count%every == 0 {
			interleave(t, schedule, 2*n)
		}
	}
}

// ones returns how many bits of n are set.
func ones(n int) (set int) {
	for ; n > 0; n &= n - 1 {
		set++
	}
	return set
}

// interleave runs two writers that expect the same version, and lets one or the other take its next step as the bits say.
// In the middle a third one writes twice.
func interleave(t *testing.T, schedule, steps int) {
	dir := looptest.MemoryDir(t)
	other := openFiles(t, dir)
	first, err := other.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	all := chain{}
	var writers [2]stepper
	for i := range writers {
		writers[i] = newStepper(t, openFiles(t, dir), first)
	}
	for i := range steps {
		writers[schedule>>i&1].next()
		if i == steps/2 {
			have := first.Version
			for range 2 {
				now, err := other.Get(t.Context(), "lease")
				require.NoError(t, err)
				if now.Version != have { // what one of the two has written
					all.wrote(t, have, now.Version)
				}
				next, err := other.Update(t.Context(), now)
				require.NoError(t, err)
				all.wrote(t, now.Version, next.Version)
				have = next.Version
			}
		}
	}
	for _, w := range writers {
		w.finish()
		switch {
		case *w.err == nil && all[first.Version] != *w.version:
			all.wrote(t, first.Version, *w.version)
		case errors.Is(*w.err, leaderelect.ErrConflict):
			require.NotEqual(t, *w.version, all[first.Version], "schedule %b: a conflict that has written", schedule)
		}
	}
	now, err := other.Get(t.Context(), "lease")
	require.NoError(t, err)
	require.Equal(t, all.end(first.Version), now.Version, "schedule %b: the record is the last that was acknowledged", schedule)
}

// stepper is a write that goes from step to step when it is told to.
type stepper struct {
	step    chan struct{} // each of next lets it take a step; closed by finish
	waits   chan struct{} // it waits for the next; closed when it has ended
	err     *error
	version *string
}

func newStepper(t *testing.T, s files, have leaderelect.Entry) stepper {
	w := stepper{make(chan struct{}), make(chan struct{}), new(error), new(string)}
	pause := func(string) {
		w.waits <- struct{}{}
		<-w.step
	}
	s.OnStep(pause)
	go func() { // ends with the write
		defer close(w.waits)
		pause("")
		e, err := s.Update(t.Context(), leaderelect.Entry{Key: "lease", Version: have.Version, Term: 2})
		*w.err, *w.version = err, e.Version
	}()
	<-w.waits
	return w
}

// next lets it take a step, unless it has ended.
func (w stepper) next() {
	select {
	case w.step <- struct{}{}:
		<-w.waits
	case <-w.waits:
	}
}

// finish lets it run to its end.
func (w stepper) finish() {
	close(w.step)
	for range w.waits {
	}
}
