package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/informer/files/notify"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

func TestMain(m *testing.M) { looptest.Main(m) }

type site struct {
	Name string
	Rev  int
}

func nameOf(s site) string { return s.Name }

func decode(_ string, data []byte) ([]site, error) {
	var s site
	err := json.Unmarshal(data, &s)
	return []site{s}, err
}

// world is a directory, and an informer that compares it only when it is nudged.
type world struct {
	t     *testing.T
	dir   string
	calls chan string
	errs  looptest.Log[error]
}

func start(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, calls: make(chan string, 1000)}
	src, err := files.New(dir, decode, nameOf, files.Config[site]{
		Interval: -1, Settle: time.Millisecond, Grace: 50 * time.Millisecond, Empty: true,
	})
	require.NoError(t, err)
	in, err := informer.New(src, nameOf, informer.Config{})
	require.NoError(t, err)
	_, err = in.AddHandler(informer.Handler[string, site]{
		OnAdd:    func(s site, _ bool) { w.calls <- fmt.Sprint(s.Name, " ", s.Rev) },
		OnUpdate: func(_, s site) { w.calls <- fmt.Sprint(s.Name, " ", s.Rev) },
		OnDelete: func(d cache.Tombstone[string, site]) { w.calls <- "no " + d.Key },
	})
	require.NoError(t, err)
	looptest.Start(t, in.Run)
	looptest.Start(t, func(ctx context.Context) error { return notify.Run(ctx, src, notify.Config{OnError: w.errs.Add}) })
	require.NoError(t, informer.WaitForSync(t.Context(), in))
	return w
}

// sees waits for calls of the handler, in any order.
func (w *world) sees(calls ...string) {
	w.t.Helper()
	var got []string
	for range calls {
		select {
		case call := <-w.calls:
			got = append(got, call)
		case <-time.After(20 * time.Second):
			w.t.Fatalf("the handler was called for %v; want %v", got, calls)
		}
	}
	require.ElementsMatch(w.t, calls, got)
}

func (w *world) write(name string, rev int) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name)+".json")
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, fmt.Appendf(nil, `{"Name": %q, "Rev": %d}`, filepath.Base(name), rev), 0o644))
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	require.NoError(w.t, os.Rename(filepath.Join(w.dir, from), filepath.Join(w.dir, to)))
}

func TestEventsWakeTheSource(t *testing.T) {
	w := start(t, looptest.MemoryDir(t))
	w.write("a", 1)
	w.sees("a 1")
	w.write("a", 2)
	w.sees("a 2")
	w.write("d/e/b", 1)
	w.sees("b 1")
	w.write("d/e/b", 2)
	w.sees("b 2")
	require.NoError(t, os.Remove(filepath.Join(w.dir, "a.json")))
	w.sees("no a")
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "d")))
	w.sees("no b")
	require.Empty(t, w.errs.All())
}

func TestDirectoriesThatMoveAreFollowed(t *testing.T) {
	w := start(t, looptest.MemoryDir(t))
	w.write("x/d/a", 1)
	w.sees("a 1")
	w.rename("x", "moved")
	w.write("moved/d/a", 2)
	w.sees("a 2")
	w.write(".new/d/a", 3)
	w.rename("moved", ".old") // and another directory takes its name at once
	w.rename(".new", "moved")
	w.sees("a 3")
	for rev := range 10 {
		w.write("moved/d/a", 10+rev)
		w.sees(fmt.Sprint("a ", 10+rev))
	}
}

func TestTreesThatAreCreatedAtOnceAreComplete(t *testing.T) {
	w := start(t, looptest.MemoryDir(t))
	var want []string
	for i := range 30 {
		for k := range 10 {
			w.write(fmt.Sprintf("d%d/e/s%d-%d", i, i, k), 1)
			want = append(want, fmt.Sprintf("s%d-%d 1", i, k))
		}
	}
	w.sees(want...)
}

func TestLinksAreFollowed(t *testing.T) {
	top := looptest.MemoryDir(t)
	w := &world{t: t, dir: top}
	w.write("rev1/a", 1)
	w.write("rev2/a", 2)
	link := func(target, name string) {
		require.NoError(t, os.Symlink(target, filepath.Join(top, ".new")))
		require.NoError(t, os.Rename(filepath.Join(top, ".new"), filepath.Join(top, name)))
	}
	link("rev1", "current")
	link("current", "root")
	w = start(t, filepath.Join(top, "root"))
	w.sees("a 1")
	link("rev2", "current")
	w.sees("a 2")
	w.write("a", 3)
	w.sees("a 3")

	other := &world{t: t, dir: top}
	other.write("one/b", 1)
	other.write("two/b", 2)
	link("../one", "rev2/sub")
	w.sees("b 1")
	link("../two", "rev2/sub")
	w.sees("b 2")
	other.write("two/b", 3)
	w.sees("b 3")
}

// nudges is a source without directories, which records its nudges.
type nudges struct{ all int }

func (*nudges) Root() string                      { return "." }
func (*nudges) Dirs() ([]string, <-chan struct{}) { return nil, nil }
func (n *nudges) Nudge(dirs ...string)            { n.all++ }

func TestOverflowComparesEverything(t *testing.T) {
	src := new(nudges)
	var errs []string
	lost := notify.Lost(src, func(err error) { errs = append(errs, err.Error()) })
	lost(fsnotify.ErrEventOverflow)
	lost(fsnotify.ErrEventOverflow)
	require.Equal(t, 2, src.all)
	require.Equal(t, []string{"notify: read events: fsnotify: queue or buffer overflow"}, errs)
}
