//go:build unix

package storetest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// The environment of a writer process: the path of the log, and the name of the writer.
const (
	writerLog  = "SETPOINT_STORETEST_LOG"
	writerName = "SETPOINT_STORETEST_WRITER"
)

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	if path := os.Getenv(writerLog); path != "" {
		if err := writer(path, os.Getenv(writerName), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	debug.SetGCPercent(400) // a test leaves little alive
	os.Exit(m.Run())
}

// kept is how many of the keys that a writer has created are there at a time.
const kept = 3

// writer writes to the store, round by round, until in ends. It prints each write after the store has accepted it. It
// repeats the round in which it was killed.
func writer(path, name string, in io.Reader, out io.Writer) error {
	db, err := openLog(path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.pause = 2 * time.Millisecond
	s, err := store.Open[thing](db, "thing", store.Config[thing]{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the parent closes the pipe, at the latest when it has died
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	own, err := counter(context.Background(), s, "own/"+name)
	if err != nil {
		return err
	}
	reported := 0
	for n := max(own.Value.Size, 1); ; n++ { // the round of own may not have ended
		if err := round(s, name, n, out); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		for ; reported < db.cuts; reported++ {
			_, _ = fmt.Fprintln(out, "cut")
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// round is the writes of one round. Only those of the shared counter are not safe to repeat.
func round(s store.Store[thing], name string, n int, out io.Writer) error {
	ctx := context.Background() // a round that has begun ends
	own, err := counter(ctx, s, "own/"+name)
	if err != nil {
		return err
	}
	if own.Value.Size != n && own.Value.Size != n-1 {
		return fmt.Errorf("the counter of %s is %d", name, own.Value.Size)
	}
	own.Value.Size = n
	own, err = s.Update(ctx, own)
	if err != nil {
		return err
	}
	acknowledged(out, own)
	for {
		shared, err := counter(ctx, s, "shared")
		if err != nil {
			return err
		}
		shared.Value.Size++
		shared, err = s.Update(ctx, shared)
		if err == nil {
			acknowledged(out, shared)
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	o, err := counter(ctx, s, fmt.Sprint("key/", name, "/", n))
	if err != nil {
		return err
	}
	acknowledged(out, o)
	if n > kept {
		o, err = s.Delete(ctx, fmt.Sprint("key/", name, "/", n-kept))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		acknowledged(out, o)
	}
	return nil
}

func acknowledged(out io.Writer, o object) { _, _ = fmt.Fprintln(out, "wrote", o.Key, o.Version) }

// counter returns an object, which it creates if it does not exist.
func counter(ctx context.Context, s store.Store[thing], key string) (object, error) {
	o, err := s.Create(ctx, object{Key: key})
	if errors.Is(err, store.ErrExists) {
		o, err = s.Get(ctx, key)
	}
	return o, err
}

// process is a writer process.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	wrote chan struct{} // closed at the first write that it has printed
	read  chan struct{} // closed at the end of its output
}

// report is what all processes have printed.
type report struct {
	mu sync.Mutex
	// mu guards the following.
	wrote map[string][]informer.Version
	all   int
	cuts  int
}

func start(t *testing.T, path, name string, r *report) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), wrote: make(chan struct{}), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), writerLog+"="+path, writerName+"="+name)
	p.cmd.Stderr = os.Stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test has failed
	go func() {                                    // ends with the output of the process; the test waits for read
		defer close(p.read)
		lines := bufio.NewScanner(out)
		for first := true; lines.Scan(); first = false {
			if r.add(lines.Text()); first {
				close(p.wrote)
			}
		}
	}()
	return p
}

// add takes in one line. Lines this short reach a pipe whole or not at all.
func (r *report) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var key string
	var n int
	if got, _ := fmt.Sscanf(line, "wrote %s %d", &key, &n); got == 2 {
		r.wrote[key] = append(r.wrote[key], informer.Version(n))
		r.all++
	} else if line == "cut" {
		r.cuts++
	}
}

// counts returns how many writes were acknowledged, and how many parts of writes were cut off.
func (r *report) counts() (acknowledged, cuts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.cuts
}

// end waits for the process.
func (p *process) end() error {
	<-p.read
	return p.cmd.Wait()
}

// Three processes write, and one of them is killed again and again, often in the middle of a write. No write that was
// acknowledged is lost, none is applied twice, and a cache in another process ends up with what is stored.
func TestNoAcknowledgedWriteIsLostWhenAWriterIsKilled(t *testing.T) {
	t.Parallel()
	const enough, tooMany = 20, 100
	path := filepath.Join(tempDir(t), "log")
	db := handle(t, path)
	s := must(store.Open[thing](db, "thing", store.Config[thing]{}))
	inf := must(informer.New(s, store.Key, informer.Config{Name: "things"}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	following, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- inf.Run(following) }() // ends with stop; the test waits for it
	defer func() {
		stop()
		assert.NoError(t, <-done)
	}()

	r := &report{wrote: map[string][]informer.Version{}}
	steady := []*process{start(t, path, "one", r), start(t, path, "two", r)}
	random := rand.New(rand.NewPCG(1, 2))
	victim := start(t, path, "victim", r)
	kills, cuts := 0, 0
	for ; kills < enough || cuts == 0 && kills < tooMany; kills++ { // until a kill has met a write
		select {
		case <-victim.wrote:
		case <-ctx.Done():
			t.Fatal("the process has written nothing")
		}
		time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond)))) // any moment will do
		require.NoError(t, victim.cmd.Process.Kill())
		require.Error(t, victim.end(), "it was killed")
		victim = start(t, path, "victim", r)
		_, cuts = r.counts()
	}
	for _, p := range append(steady, victim) {
		require.NoError(t, p.stdin.Close())
	}
	for _, p := range append(steady, victim) {
		require.NoError(t, p.end())
	}

	l := must(s.List(ctx))
	require.NoError(t, inf.WaitForVersion(ctx, l.Version))
	stored := map[string]object{}
	for _, o := range l.Items {
		cached, ok := inf.Get(o.Key)
		assert.True(t, ok, o.Key)
		assert.Equal(t, o, cached)
		stored[o.Key] = o
	}
	assert.Equal(t, len(stored), inf.Indexer().Len())

	// The whole history, as a new process reads it.
	reported := map[string]map[informer.Version]bool{}
	shared := 0
	for c, err := range handle(t, path).Watch(ctx, "thing", backend.Query{}, 0) {
		require.NoError(t, err)
		if key := c.Record.Key; key != "" {
			if reported[key] == nil {
				reported[key] = map[informer.Version]bool{}
			}
			reported[key][c.Version] = true
			if key == "shared" {
				shared++
			}
		}
		if c.Version >= l.Version {
			break
		}
	}
	for key, versions := range r.wrote {
		for _, v := range versions {
			assert.True(t, reported[key][v], "the write of %s at version %d was acknowledged", key, v)
		}
	}
	raises := len(r.wrote["shared"])
	assert.Equal(t, shared-1, stored["shared"].Value.Size, "each change but the creation raises it by one")
	assert.GreaterOrEqual(t, stored["shared"].Value.Size, raises)
	assert.LessOrEqual(t, stored["shared"].Value.Size, raises+kills, "one more for each kill, before its line was printed")
	keys := 4
	for _, name := range []string{"one", "two", "victim"} {
		own := stored["own/"+name].Value.Size
		assert.Len(t, reported["own/"+name], own+1, "each round of %s raises it once, however often it was repeated", name)
		for n := max(own-kept+1, 1); n <= own; n++ {
			assert.Contains(t, stored, fmt.Sprint("key/", name, "/", n))
			keys++
		}
	}
	assert.Len(t, stored, keys, "all other keys are deleted")
	writes, cuts := r.counts()
	t.Logf("%d kills, %d parts of writes cut off, %d writes acknowledged; the shared counter is %d, of which %d acknowledged",
		kills, cuts, writes, stored["shared"].Value.Size, raises)
	assert.Positive(t, cuts, "no kill has interrupted a write")
}
