package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// world is a Dir over a directory that the test edits.
type world struct {
	t    *testing.T
	path string
	*manifest.Dir
	told []string // what was reported, and what recovered
}

func open(t *testing.T) *world {
	w := &world{t: t, path: t.TempDir()}
	var err error
	w.Dir, err = manifest.Open(w.path, manifest.Config{
		Report:    func(err error) { w.told = append(w.told, err.Error()) },
		Recovered: func(file string) { w.told = append(w.told, "recovered "+file) },
	})
	require.NoError(t, err)
	return w
}

func (w *world) write(file, content string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.path, file), []byte(content), 0o600))
}

func (w *world) remove(file string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(filepath.Join(w.path, file)))
}

// lists requires that the next list is these manifests, "name:port" each, and that these are told.
func (w *world) lists(manifests string, told ...string) {
	w.t.Helper()
	w.told = nil
	list, err := w.List(context.Background())
	require.NoError(w.t, err)
	var have []string
	for _, m := range list {
		have = append(have, fmt.Sprintf("%s:%d", m.Name, m.Port))
	}
	require.Equal(w.t, manifests, strings.Join(have, " "))
	require.Equal(w.t, told, w.told)
}

func app(name string, port int) string {
	return fmt.Sprintf(`{"name": %q, "replicas": 1, "port": %d}`, name, port)
}

func TestListReadsDirectory(t *testing.T) {
	w := open(t)
	w.lists("")
	w.write("2.json", app("a", 2))
	w.write("1.json", app("b", 1))
	w.write(".3.json", app("c", 3))
	w.write("4.json~", app("d", 4))
	w.write("README.md", "not a manifest")
	w.lists("a:2 b:1")
	w.write("2.json", app("a", 7))
	w.lists("a:7 b:1")
	w.remove("1.json")
	w.lists("a:7")
	require.Empty(t, w.Problems())
}

func TestInvalidFileKeepsItsAppAndIsReportedOnce(t *testing.T) {
	w := open(t)
	w.write("a.json", app("a", 1))
	w.lists("a:1")
	w.write("a.json", "")
	w.lists("a:1", "manifest: a.json: the file is empty")
	w.lists("a:1")
	require.EqualError(t, errors.Join(asErrors(w.Problems())...), "manifest: a.json: the file is empty")
	w.write("a.json", `{"name": "a"`)
	w.lists("a:1", "manifest: a.json: the file ends in the middle")
	w.lists("a:1")
	w.write("a.json", app("a", 5))
	w.lists("a:5", "recovered a.json")
	require.Empty(t, w.Problems())
	w.write("a.json", "")
	w.lists("a:5", "manifest: a.json: the file is empty")
	w.remove("a.json")
	w.lists("")
	require.Empty(t, w.Problems())
	w.write("a.json", "")
	w.lists("", "manifest: a.json: the file is empty")
}

func TestNonRegularFileIsASeparateProblem(t *testing.T) {
	w := open(t)
	w.write("a.json", app("a", 1))
	require.NoError(t, os.Mkdir(filepath.Join(w.path, "dir.json"), 0o700))
	w.lists("a:1", "manifest: dir.json: it is not a regular file")
	w.remove("dir.json")

	require.NoError(t, os.Symlink(filepath.Join(w.path, "nowhere"), filepath.Join(w.path, "link.json")))
	w.told = nil
	list, err := w.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Len(t, w.Problems(), 1)
	require.EqualError(t, w.Problems()[0], "manifest: link.json: no such file or directory")
	w.write("nowhere", app("b", 2))
	w.lists("a:1 b:2", "recovered link.json")

	w.write("big.json", app("c", 3)+strings.Repeat(" ", manifest.MaxSize))
	w.lists("a:1 b:2", "manifest: big.json: the file has more than 65536 bytes")
}

func TestUnreadableDirectoryIsAnError(t *testing.T) {
	w := open(t)
	w.write("a.json", app("a", 1))
	w.lists("a:1")
	require.NoError(t, os.Rename(w.path, w.path+"-away"))
	_, err := w.List(context.Background())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), w.path)
	require.NoError(t, os.Rename(w.path+"-away", w.path))
	w.lists("a:1")

	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	_, err = w.List(ctx)
	require.ErrorIs(t, err, cause)
}

func TestOpenRequiresDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := manifest.Open(missing, manifest.Config{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), missing)
	require.NoError(t, os.WriteFile(missing, nil, 0o600))
	_, err = manifest.Open(missing, manifest.Config{})
	require.EqualError(t, err, "manifest: open directory: open "+missing+": not a directory")
}

func TestOpenNamesInvalidField(t *testing.T) {
	path := t.TempDir()
	_, err := manifest.Open(path, manifest.Config{ReadTimeout: -1})
	require.EqualError(t, err, "manifest: open "+path+": Config.ReadTimeout is -1ns, must not be negative")
}

func TestFirstFileKeepsName(t *testing.T) {
	w := open(t)
	w.write("2.json", app("a", 2))
	w.write("3.json", app("a", 3))
	w.lists("a:2", `manifest: 3.json: name: "a" is taken by 2.json`)
	w.write("1.json", app("a", 1))
	w.lists("a:2", `manifest: 1.json: name: "a" is taken by 2.json`)
	w.lists("a:2")
	w.write("2.json", "{")
	w.lists("a:2", "manifest: 2.json: the file ends in the middle")
	w.remove("2.json")
	w.lists("a:1", `manifest: 3.json: name: "a" is taken by 1.json`, "recovered 1.json")
	w.write("3.json", app("c", 3))
	w.lists("a:1 c:3", "recovered 3.json")
}

func TestFileTakingUsedNameKeepsItsOwnApp(t *testing.T) {
	w := open(t)
	w.write("1.json", app("a", 1))
	w.write("2.json", app("b", 2))
	w.lists("a:1 b:2")
	w.write("1.json", app("b", 1))
	w.lists("a:1 b:2", `manifest: 1.json: name: "b" is taken by 2.json`)
}

func TestPortConflictIsAProblemOfTheLaterApp(t *testing.T) {
	w := open(t)
	w.write("2.json", app("b", 8001))
	w.lists("b:8001")
	w.write("1.json", app("a", 8001))
	w.lists("b:8001", "manifest: 1.json: port: 8001 is taken by 2.json")
	w.write("2.json", app("b", 8002))
	w.lists("a:8001 b:8002", "recovered 1.json")
}

func TestFilesMaySwapPortsAndNames(t *testing.T) {
	w := open(t)
	w.write("1.json", app("a", 1))
	w.write("2.json", app("b", 2))
	w.lists("a:1 b:2")
	w.write("1.json", app("a", 2))
	w.lists("a:1 b:2", "manifest: 1.json: port: 2 is taken by 2.json")
	w.write("2.json", app("b", 1))
	w.lists("a:2 b:1", "recovered 1.json")
	w.write("1.json", app("b", 1))
	w.write("2.json", app("a", 2))
	w.lists("a:2 b:1")
}

func TestConflictErrorIsEscapedForTerminal(t *testing.T) {
	w := open(t)
	w.write("\x1b.json", app("a", 1))
	w.write("b.json", app("b", 1))
	w.lists("a:1", `manifest: b.json: port: 1 is taken by "\x1b.json"`)
}

func TestRenamedFileKeepsItsApp(t *testing.T) {
	w := open(t)
	w.write("a.json", app("a", 1))
	w.lists("a:1")
	require.NoError(t, os.Rename(filepath.Join(w.path, "a.json"), filepath.Join(w.path, "z.json")))
	w.lists("a:1")
}

func TestConcurrentListsConverge(t *testing.T) {
	path := t.TempDir()
	dir, err := manifest.Open(path, manifest.Config{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 30 {
				name := fmt.Sprintf("app-%d", i)
				content := app(name, 1+i)
				if n%3 == 1 {
					content = content[:n%len(content)]
				}
				if err := os.WriteFile(filepath.Join(path, name+".json"), []byte(content), 0o600); err != nil {
					t.Error(err)
				}
				if list, err := dir.List(context.Background()); err != nil || len(list) > 4 {
					t.Error(list, err)
				}
				dir.Problems()
			}
		})
	}
	wg.Wait()
	list, err := dir.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Empty(t, dir.Problems())
}

func TestSlowListDoesNotUndoLaterOne(t *testing.T) {
	dir, err := manifest.Open(t.TempDir(), manifest.Config{})
	require.NoError(t, err)
	a, b := manifest.Manifest{Name: "a", Port: 1}, manifest.Manifest{Name: "b", Port: 2}
	require.Equal(t, []manifest.Manifest{a}, dir.MergeAt(1, map[string]manifest.Manifest{"a.json": a}))
	require.Equal(t, []manifest.Manifest{b}, dir.MergeAt(3, map[string]manifest.Manifest{"b.json": b}))
	require.Equal(t, []manifest.Manifest{b}, dir.MergeAt(2, nil))
}

func asErrors(problems []*manifest.Error) []error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errs
}
