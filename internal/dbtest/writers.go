package dbtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// patience limits how long the processes may take to write anything, and to end.
const patience = time.Minute

// Writers checks that a backend keeps its promises under faults: processes write through it while a test repeatedly breaks something, and at
// the end all acknowledgments that the processes have received must be true. A TestMain that calls [WriterMain] turns a test binary into a
// writer process. [BeginWriters] starts two of them, with two writers each, and an informer in the process of the test. [Writers.Check] ends
// them, and compares. If it finds nothing:
//
//  1. Every acknowledged write, of any process, is in the history, at the version of the acknowledgment.
//  2. A write that a process repeated because its outcome was unknown was applied once.
//  3. A counter that all writers increment has lost no increment.
//  4. The cache of the informer equals the stored objects.
//  5. A handler received every deletion once.
//
// If the backend drops changes, so that watches expire, only the last states can be compared: each is that of the last acknowledged write,
// and the handler has received exactly the objects that exist. [NewAway] makes watches miss changes.
//
// Some servers lose acknowledged writes, such as a standby that lags when it is promoted. [BeginLossyWriters] and [Writers.CheckLossy] are
// for them: exactly the writes at the lost versions are missing, and no lost version is assigned again. The watches and the cache agree with
// the history that is left.
type Writers struct {
	t        testing.TB
	target   string
	store    store.Store[App]
	db       backend.Backend
	informer *store.Informer[App]
	handler  informer.Registration
	deleted  map[string]int  // by key; of the goroutine of the handler, until the informer has stopped
	live     map[string]bool // as reported to the handler; of the same goroutine
	stop     func()
	done     chan error
	started  int
	steady   *writerProcess
	victim   *writerProcess
	audit    *audit // nil unless the backend may lose writes

	mu sync.Mutex
	// mu guards the following.
	writes []acknowledged
}

// acknowledged is a write that a process has printed.
type acknowledged struct {
	what, key string
	version   informer.Version
}

// writerProcess is a writer process.
type writerProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  chan struct{} // closed at the end of its output
}

// BeginWriters starts two writer processes and an informer on an empty backend, db, that keeps all changes of the test. Each process opens the backend
// with target.
func BeginWriters(t testing.TB, db backend.Backend, target string) *Writers {
	t.Helper()
	w := &Writers{t: t, target: target, db: db}
	w.begin()
	return w
}

func (w *Writers) begin() {
	t := w.t
	t.Helper()
	w.deleted, w.live, w.done = map[string]int{}, map[string]bool{}, make(chan error, 1)
	var err error
	if w.store, err = store.Open(w.db, appKind, store.Config[App]{}); err != nil {
		t.Fatal(err)
	}
	if _, err = w.store.Create(t.Context(), store.Object[App]{Key: shared, Value: App{Image: "0"}}); err != nil {
		t.Fatal(err)
	}
	if w.informer, err = informer.New(w.store, store.Key, informer.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	w.handler, err = w.informer.AddHandler(informer.Handler[string, store.Object[App]]{
		EveryEvent: true,
		OnAdd:      func(o store.Object[App], _ bool) { w.live[o.Key] = true },
		OnDelete: func(d cache.Tombstone[string, store.Object[App]]) {
			w.deleted[d.Key]++
			delete(w.live, d.Key)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop = stop
	go func() { w.done <- w.informer.Run(following) }() // ends with stop; Check waits for it
	t.Cleanup(stop)
	select { // the handler receives deletions of objects of the first list and of later ones
	case <-w.informer.Synced():
	case <-time.After(patience):
		t.Fatalf("the informer has not synced within %v", patience)
	}
	w.steady, w.victim = w.launch(), w.launch()
}

func (w *Writers) launch() *writerProcess {
	w.t.Helper()
	w.started++
	p := &writerProcess{cmd: exec.Command(os.Args[0]), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), envTarget+"="+w.target, fmt.Sprintf("%s=%d", envName, w.started))
	if w.audit != nil {
		p.cmd.Env = append(p.cmd.Env, envLossy+"=1")
	}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test has failed
	go func() {                                      // ends with the output of the process; end waits for it
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a acknowledged
			if n, _ := fmt.Sscanf(lines.Text(), "%s %s %d", &a.what, &a.key, &a.version); n == 3 {
				w.mu.Lock()
				w.writes = append(w.writes, a)
				w.mu.Unlock()
			}
		}
	}()
	return p
}

// Writes returns how many writes were acknowledged.
func (w *Writers) Writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes)
}

// AwaitWrites waits until n more writes have been acknowledged.
func (w *Writers) AwaitWrites(n int) {
	w.t.Helper()
	goal, deadline := w.Writes()+n, time.Now().Add(patience)
	for w.Writes() < goal {
		if time.Now().After(deadline) {
			w.t.Fatalf("only %d of %d writes in %v", w.Writes()-goal+n, n, patience)
		}
		time.Sleep(time.Millisecond)
	}
}

// AwaitCache waits until the cache has everything that has been acknowledged until now.
func (w *Writers) AwaitCache() {
	w.t.Helper()
	w.mu.Lock()
	var last informer.Version
	for _, a := range w.writes {
		last = max(last, a.version)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.informer.WaitForVersion(ctx, last); err != nil {
		w.t.Fatalf("the cache is at version %d, and version %d was acknowledged: %v", w.informer.Version(), last, err)
	}
}

// Repeat makes a fault happen a number of times, each after 20 more writes, and waits for 20 writes after the last one.
func (w *Writers) Repeat(times int, fault func()) {
	w.t.Helper()
	for range times {
		w.AwaitWrites(20)
		time.Sleep(rand.N(20 * time.Millisecond))
		fault()
	}
	w.AwaitWrites(20)
}

// KillWriter kills one of the processes, as kill -9 does, and starts another one in its place.
func (w *Writers) KillWriter() {
	w.t.Helper()
	if err := w.victim.cmd.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	<-w.victim.read
	if w.victim.cmd.Wait() == nil {
		w.t.Fatal("the process has ended before it was killed")
	}
	w.victim = w.launch()
}

// Check ends the processes and compares their acknowledged writes with the backend. history is a backend that has just been
// opened. It returns the number of changes in the history.
//
// If the backend has dropped changes, history is nil. Then Check compares only the last states, and the handler need not have received
// objects that came and went while the informer was away. No process may have been killed. Nor need it if the backend is an [Away] and a
// watch has expired.
func (w *Writers) Check(history backend.Backend) (changes int) {
	w.t.Helper()
	w.end()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	l := w.finish(ctx)
	var lives map[string]*life
	if history != nil {
		lives, _ = w.compareHistory(ctx, history, l.Version, func(informer.Version) bool { return false })
	} else {
		w.compareLast(l.Items)
	}
	w.compareHandler(ctx, l.Items)
	away, ok := w.db.(*Away)
	expired := ok && away.Expired() > 0
	for key, l := range lives {
		if n := w.deleted[key]; n != l.deletions && !expired {
			w.t.Errorf("%s was deleted %d times, but the handler was called %d times", key, l.deletions, n)
		}
		changes += len(l.versions)
	}
	return changes
}

// end ends the processes.
func (w *Writers) end() {
	w.t.Helper()
	for _, p := range []*writerProcess{w.steady, w.victim} {
		_ = p.stdin.Close()
		select {
		case <-p.read:
		case <-time.After(patience):
			w.t.Fatalf("a process has not ended within %v", patience)
		}
		if err := p.cmd.Wait(); err != nil {
			w.t.Fatal("a process: ", err)
		}
	}
}

// finish compares the cache with the stored objects, which it returns.
func (w *Writers) finish(ctx context.Context) (l informer.List[store.Object[App]]) {
	w.t.Helper()
	if err := persist(func(ctx context.Context) (err error) { // a connection of before the last fault may be broken
		l, err = w.store.List(ctx)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.informer.WaitForVersion(ctx, l.Version); err != nil {
		w.t.Fatalf("the cache is at version %d, the store at %d: %v", w.informer.Version(), l.Version, err)
	}
	w.compareCache(l.Items)
	return l
}

// compareHandler ends the informer, and compares what its handler has received with the stored objects.
func (w *Writers) compareHandler(ctx context.Context, stored []store.Object[App]) {
	w.t.Helper()
	if err := w.handler.WaitIdle(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Error(err)
	}
	for _, o := range stored {
		if !w.live[o.Key] {
			w.t.Errorf("the handler was not called for %s", o.Key)
		}
		delete(w.live, o.Key)
	}
	for key := range w.live {
		w.t.Errorf("%s was deleted, but the handler was not called", key)
	}
}

func (w *Writers) compareCache(stored []store.Object[App]) {
	w.t.Helper()
	if n := w.informer.Indexer().Len(); n != len(stored) {
		w.t.Errorf("the cache has %d objects, the store %d", n, len(stored))
	}
	for _, o := range stored {
		if cached, ok := w.informer.Get(o.Key); !ok || !reflect.DeepEqual(cached, o) {
			w.t.Errorf("the cache has %+v, the store %+v", cached, o)
		}
	}
}

// compareLast compares the stored objects with the acknowledgments.
func (w *Writers) compareLast(stored []store.Object[App]) {
	w.t.Helper()
	last := map[string]acknowledged{}
	raises := 0
	for _, a := range w.writes {
		if a.version > last[a.key].version {
			last[a.key] = a
		}
		if a.what == "raise" {
			raises++
		}
	}
	there := map[string]bool{}
	for _, o := range stored {
		there[o.Key] = true
		switch a := last[o.Key]; {
		case o.Key == shared && o.Value.Image != strconv.Itoa(raises):
			w.t.Errorf("the counter is %s, and was raised %d times", o.Value.Image, raises)
		case a.version != o.Version && (o.Key != shared || raises > 0):
			w.t.Errorf("%s is at version %d, and its last write was acknowledged at %d", o.Key, o.Version, a.version)
		}
	}
	for key, a := range last {
		if there[key] == (a.what == "delete") {
			w.t.Errorf("%s %s was acknowledged; present: %v", a.what, key, there[key])
		}
	}
}

// life is the history of a key.
type life struct {
	versions  map[informer.Version]bool // true for a deletion
	deletions int
}

// compareHistory reads the history up to a version, and compares it with the acknowledgments. Those at a lost version must be missing, and
// compareHistory returns their number.
func (w *Writers) compareHistory(
	ctx context.Context, db backend.Backend, upTo informer.Version, lost func(informer.Version) bool,
) (lives map[string]*life, missing int) {
	w.t.Helper()
	lives = map[string]*life{}
	for c, err := range db.Watch(ctx, appKind, backend.Query{}, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if key := c.Record.Key; key != "" {
			if lost(c.Version) {
				w.t.Errorf("%s has version %d, which was lost", key, c.Version)
			}
			if lives[key] == nil {
				lives[key] = &life{versions: map[informer.Version]bool{}}
			}
			if lives[key].versions[c.Version] = c.Record.Deleted; c.Record.Deleted {
				lives[key].deletions++
			}
		}
		if c.Version >= upTo {
			break
		}
	}
	for _, a := range w.writes {
		if lost(a.version) {
			missing++
			continue
		}
		l := lives[a.key]
		if l == nil {
			w.t.Errorf("%s %s at version %d was acknowledged, and the history has no such key", a.what, a.key, a.version)
			continue
		}
		deleted, there := l.versions[a.version]
		if !there || deleted != (a.what == "delete") {
			w.t.Errorf("%s %s at version %d was acknowledged, and is not in the history", a.what, a.key, a.version)
		}
	}
	for key, l := range lives {
		if key != shared && len(l.versions) > kept {
			w.t.Errorf("%s has %d changes, must not have more than a creation, an update and a deletion", key, len(l.versions))
		}
	}
	var counter store.Object[App]
	if err := persist(func(ctx context.Context) (err error) {
		counter, err = w.store.Get(ctx, shared)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	if raises := strconv.Itoa(len(lives[shared].versions) - 1); counter.Value.Image != raises {
		w.t.Errorf("the counter is %s, and was raised %s times", counter.Value.Image, raises)
	}
	return lives, missing
}
