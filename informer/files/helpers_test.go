package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

func TestMain(m *testing.M) {
	if os.Getenv(writerDir) != "" {
		writeForever()
	}
	looptest.Main(m)
}

// site is an object. A file has any number of them, as JSON.
type site struct {
	Name string
	Rev  int
}

func nameOf(s site) string { return s.Name }

func decode(_ string, data []byte) (sites []site, err error) {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	for {
		var s site
		switch err := in.Decode(&s); {
		case errors.Is(err, io.EOF):
			return sites, nil
		case err != nil:
			return nil, err
		case s.Name == "":
			return nil, errors.New("no name")
		}
		sites = append(sites, s)
	}
}

func valid(s site) error {
	if s.Rev < 0 {
		return fmt.Errorf("the revision is %d", s.Rev)
	}
	return nil
}

func encode(sites ...site) []byte {
	var b bytes.Buffer
	for _, s := range sites {
		fmt.Fprintf(&b, "{\"Name\":%q,\"Rev\":%d}\n", s.Name, s.Rev)
	}
	return b.Bytes()
}

// world is a directory, a source of it, and an informer. Everything is in a bubble.
type world struct {
	t      *testing.T
	dir    string
	source *files.Source[string, site]
	cache  *informer.Informer[string, site]
	errs   looptest.Log[error]
	calls  looptest.Log[string]
	stop   func()
}

// inBubble calls f with a new world, in a bubble. change changes the defaults of the configuration.
func inBubble(t *testing.T, change func(*files.Config[site]), f func(t *testing.T, w *world)) {
	t.Helper()
	dir := looptest.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir}
		cfg := files.Config[site]{Valid: valid}
		if change != nil {
			change(&cfg)
		}
		w.source = open(t, dir, cfg)
		f(t, w)
		if w.stop != nil {
			w.stop()
		}
	})
}

func open(t testing.TB, dir string, cfg files.Config[site]) *files.Source[string, site] {
	t.Helper()
	src, err := files.New(dir, decode, nameOf, cfg)
	require.NoError(t, err)
	return src
}

// start starts the informer of w, and waits for its first list.
func (w *world) start() {
	w.t.Helper()
	var err error
	w.cache, err = informer.New(w.source, nameOf, informer.Config{Name: "sites", OnError: w.errs.Add})
	require.NoError(w.t, err)
	_, err = w.cache.AddHandler(record(&w.calls))
	require.NoError(w.t, err)
	w.stop = looptest.StartInBubble(w.t, w.cache.Run)
	require.NoError(w.t, informer.WaitForSync(w.t.Context(), w.cache))
}

// after returns the calls of the handler in the next d, in the order of their keys.
func (w *world) after(d time.Duration) []string {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	return w.calls.Take()
}

// errors returns the texts of the errors since the last call.
func (w *world) errors() (texts []string) {
	synctest.Wait()
	for _, err := range w.errs.Take() {
		texts = append(texts, err.Error())
	}
	return texts
}

// has requires that the cache has exactly these sites.
func (w *world) has(sites ...site) {
	w.t.Helper()
	synctest.Wait()
	var got []site
	for _, s := range w.cache.All() {
		got = append(got, s)
	}
	require.ElementsMatch(w.t, sites, got)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// write writes a file in place, and creates its directory.
func (w *world) write(name string, sites ...site) { w.writeText(name, string(encode(sites...))) }

func (w *world) writeText(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o644))
}

func (w *world) remove(name string) {
	w.t.Helper()
	require.NoError(w.t, os.RemoveAll(w.path(name)))
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	require.NoError(w.t, os.Rename(w.path(from), w.path(to)))
}

func (w *world) link(target, name string) {
	w.t.Helper()
	require.NoError(w.t, os.Symlink(target, w.path(name)))
}

// list returns a list of the source.
func (w *world) list() informer.List[site] {
	w.t.Helper()
	list, err := w.source.List(context.Background())
	require.NoError(w.t, err)
	return list
}
