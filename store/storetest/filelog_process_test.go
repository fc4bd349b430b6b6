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
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	os.Exit(m.Run())
}

// kept is how many of the keys that a writer has created are there at a time.
const kept = 3

// writer writes to the store, round by round, until in ends. It prints each write after the store has accepted it. It
// repeats the round in which it was killed, with the same request ids.
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
	told := 0
	for n := max(own.Value.Size, 1); ; n++ { // the round of own may not have ended
		if err := round(s, name, n, out); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		for ; told < db.cuts; told++ {
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
	own, err = s.Update(ctx, own, store.RequestID(fmt.Sprint("raise ", n)))
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
	o, err := s.Create(ctx, object{Key: fmt.Sprint("key/", name, "/", n)}, store.RequestID("create"))
	if err != nil {
		return err
	}
	acknowledged(out, o)
	if n > kept {
		if o, err = s.Delete(ctx, fmt.Sprint("key/", name, "/", n-kept), store.RequestID("delete")); err != nil {
			return err
		}
		acknowledged(out, o)
	}
	return nil
}

func acknowledged(out io.Writer, o object) { _, _ = fmt.Fprintln(out, "wrote", o.Key, o.Version) }

// counter returns a counter, which it creates if it does not exist.
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
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	path := filepath.Join(t.TempDir(), "log")
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
		if err := <-done; err != nil {
			t.Errorf("<-done: %v", err)
		}
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
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond)))) // any moment will do
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := victim.end(); err == nil {
			t.Fatal("it was killed: victim.end() = nil, want an error")
		}
		victim = start(t, path, "victim", r)
		_, cuts = r.counts()
	}
	for _, p := range append(steady, victim) {
		if err := p.stdin.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range append(steady, victim) {
		if err := p.end(); err != nil {
			t.Fatalf("p.end(): %v", err)
		}
	}

	l := must(s.List(ctx))
	if err := inf.WaitForVersion(ctx, l.Version); err != nil {
		t.Fatalf("inf.WaitForVersion(ctx, l.Version): %v", err)
	}
	stored := map[string]object{}
	for _, o := range l.Items {
		cached, ok := inf.Get(o.Key)
		if !ok {
			t.Errorf("%v: ok is false", o.Key)
		}
		if diff := cmp.Diff(o, cached); diff != "" {
			t.Errorf("cached mismatch (-want +got):\n%s", diff)
		}
		stored[o.Key] = o
	}
	if got, want := inf.Indexer().Len(), len(stored); got != want {
		t.Errorf("inf.Indexer().Len() = %v, want %v", got, want)
	}

	// The whole history, as a new process reads it.
	told := map[string]map[informer.Version]bool{}
	shared := 0
	for c, err := range handle(t, path).Watch(ctx, "thing", backend.Query{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if key := c.Record.Key; key != "" {
			if told[key] == nil {
				told[key] = map[informer.Version]bool{}
			}
			told[key][c.Version] = true
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
			if !told[key][v] {
				t.Errorf("the write of %s at version %d was acknowledged: told[key][v] is false", key, v)
			}
		}
	}
	raises := len(r.wrote["shared"])
	if want := shared - 1; stored["shared"].Value.Size != want {
		t.Errorf(`each change but the creation raises it by one: stored["shared"].Value.Size = %v, want %v`, stored["shared"].Value.Size, want)
	}
	if stored["shared"].Value.Size < raises {
		t.Errorf(`stored["shared"].Value.Size = %v, want at least %v`, stored["shared"].Value.Size, raises)
	}
	if limit := raises + kills; stored["shared"].Value.Size > limit {
		t.Errorf(`one more for each kill, before its line was printed: stored["shared"].Value.Size = %v, want at most %v`, stored["shared"].Value.Size, limit)
	}
	keys := 4
	for _, name := range []string{"one", "two", "victim"} {
		own := stored["own/"+name].Value.Size
		if got := told["own/"+name]; len(got) != own+1 {
			t.Errorf(`each round of %s raises it once, however often it was repeated: len(told["own/"+name]) = %d, want %d: %v`, name, len(got), own+1, got)
		}
		for n := max(own-kept+1, 1); n <= own; n++ {
			if _, ok := stored[fmt.Sprint("key/", name, "/", n)]; !ok {
				t.Errorf("stored = %v, want it to contain %v", stored, fmt.Sprint("key/", name, "/", n))
			}
			keys++
		}
	}
	if len(stored) != keys {
		t.Errorf("all other keys are deleted: len(stored) = %d, want %d: %v", len(stored), keys, stored)
	}
	writes, cuts := r.counts()
	t.Logf("%d kills, %d parts of writes cut off, %d writes acknowledged; the shared counter is %d, of which %d acknowledged",
		kills, cuts, writes, stored["shared"].Value.Size, raises)
	if cuts <= 0 {
		t.Errorf("no kill has interrupted a write: cuts = %v, want more than 0", cuts)
	}
}
