package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
)

const second = 1100 * time.Millisecond // after it, a change was seen; a deletion needs the grace

func TestEditIsAnUpdateHoweverTheEditorWrites(t *testing.T) {
	edits := map[string]func(w *world, s site){
		"in place":     func(w *world, s site) { w.write("a.json", s) },
		"a rename":     func(w *world, s site) { require.NoError(w.t, replaceFile(w.path("a.json"), encode(s))) },
		"vim, a move":  func(w *world, s site) { w.rename("a.json", "a.json~"); w.write("a.json", s); w.remove("a.json~") },
		"vim, a copy":  func(w *world, s site) { w.write("a.json~", site{"a", 1}); w.write("a.json", s); w.remove("a.json~") },
		"delete first": func(w *world, s site) { w.remove("a.json"); w.after(second); w.write("a.json", s) },
		"empty first": func(w *world, s site) {
			w.writeText("a.json", "")
			w.after(10 * time.Millisecond)
			w.write("a.json", s)
		},
		"another file": func(w *world, s site) { w.remove("a.json"); w.after(second); w.write("new/b.json", s) },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, w *world) {
				w.write("a.json", site{"a", 1})
				w.write("z.json", site{"z", 1})
				w.start()
				require.ElementsMatch(t, []string{"add a.1", "add z.1"}, w.after(0))
				edit(w, site{"a", 2})
				require.Equal(t, []string{"update a.1 to a.2"}, w.after(10*time.Second))
				require.Empty(t, w.errors())
			})
		})
	}
}

func TestHalfWrittenFileIsNotRead(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval = 10 * time.Millisecond }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1}, site{"b", 1})
		w.start()
		w.after(time.Second)
		for i := range 30 { // an object more with each write, never at rest
			w.writeText("a.json", string(encode(site{"a", 2}, site{"b", 2}))[:20+i/2])
			require.Empty(t, w.after(25*time.Millisecond))
		}
		w.write("a.json", site{"a", 2}, site{"b", 2})
		require.Equal(t, []string{"update a.1 to a.2", "update b.1 to b.2"}, w.after(100*time.Millisecond))
		require.Empty(t, w.errors())
	})
}

func TestFileThatNeverRestsIsReadEventually(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval = 10 * time.Millisecond }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 0})
		w.start()
		w.after(time.Second)
		var calls []string
		for i := range 50 {
			w.write("a.json", site{"a", i})
			calls = append(calls, w.after(40*time.Millisecond)...)
		}
		require.Len(t, calls, 1)
	})
}

func TestListWaitsForFilesToRest(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		began := time.Now()
		require.Equal(t, []site{{"a", 1}}, w.list().Items)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		w.list()
		require.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}

func TestBadFileIsUnreadAndDeletesNothing(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut": `{"Name":"a","R`, "not JSON": "name: a"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, w *world) {
				w.write("a.json", site{"a", 1})
				w.write("b.json", site{"b", 1})
				w.start()
				w.after(0)
				w.writeText("a.json", content)
				w.remove("b.json")
				require.Empty(t, w.after(5*time.Minute))
				require.Equal(t, 1, w.cache.Stats().Missing)
				require.ErrorContains(t, w.cache.Unread("a"), "files: a.json: ")
				require.ErrorContains(t, w.cache.Unread("b"), "files: a.json: ") // it may be in there
				require.Error(t, w.cache.Unread("new"))
				problem := new(files.Error)
				require.ErrorAs(t, w.source.Problems()[0], &problem)
				require.Equal(t, "a.json", problem.Path)
				w.has(site{"a", 1}, site{"b", 1})

				w.write("a.json", site{"a", 2})
				require.Equal(t, []string{"update a.1 to a.2", "delete b.1"}, w.after(10*time.Second))
				require.NoError(t, w.cache.Unread("a"))
				require.NoError(t, w.cache.Unread("b"))
				require.NoError(t, w.cache.Unread("new"))
				require.Empty(t, w.source.Problems())
			})
		})
	}
}

func TestFirstListWithABadFileIsIncomplete(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.writeText("b.json", "{")
		w.start()
		w.has(site{"a", 1})
		require.Error(t, w.cache.Unread("b"))
		w.write("b.json", site{"b", 1})
		w.after(10 * time.Second)
		w.has(site{"a", 1}, site{"b", 1})
		require.NoError(t, w.cache.Unread("c"))
	})
}

func TestBadObjectAffectsNoOther(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1}, site{"b", 1}, site{"c", 1})
		w.start()
		w.after(0)
		w.write("a.json", site{"a", -1}, site{"b", 2})
		require.Equal(t, []string{"update b.1 to b.2", "delete c.1"}, w.after(10*time.Second))
		require.ErrorContains(t, w.cache.Unread("a"), "files: a.json: a: the revision is -1")
		w.has(site{"a", 1}, site{"b", 2})
	})
}

func TestPanicOfTheDecoderIsAProblemOfTheFile(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.write("b.json", site{"b", 1})
		src, err := files.New(w.dir, func(path string, data []byte) ([]site, error) {
			if path == "b.json" {
				panic("b")
			}
			return decode(path, data)
		}, nameOf, files.Config[site]{})
		require.NoError(t, err)
		list, err := src.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, []site{{"a", 1}}, list.Items)
		require.Len(t, list.Missing, 1)
	})
}

func TestDeletionWaitsForTheGrace(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval = 100 * time.Millisecond }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.write("b.json", site{"b", 1})
		w.start()
		w.after(0)
		w.remove("a.json")
		require.Empty(t, w.after(2*time.Second))
		require.Equal(t, []string{"delete a.1"}, w.after(200*time.Millisecond))
		w.remove("b.json")
		w.write("x.json", site{"x", 1})
		w.after(0)
		for i := range 59 { // the tree does not rest
			calls := w.after(time.Second)
			require.NotContains(t, calls, "delete b.1")
			w.write("x.json", site{"x", i})
		}
		require.Contains(t, w.after(2*time.Second), "delete b.1")
	})
}

// A document that is cut at its border is no document for a while.
func TestTruncationAtTheBorderOfADocumentIsNoDeletion(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1}, site{"b", 1})
		w.start()
		w.after(0)
		w.write("a.json", site{"a", 1})
		require.Empty(t, w.after(second))
		w.write("a.json", site{"a", 1}, site{"b", 2})
		require.Equal(t, []string{"update b.1 to b.2"}, w.after(10*time.Second))
	})
}

func TestMovesAreNoDeletions(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		for i := range 300 {
			w.write(fmt.Sprintf("d/%d.json", i), site{fmt.Sprint(i), 1})
		}
		w.start()
		w.after(0)
		w.rename("d", "e")
		require.Empty(t, w.after(10*time.Second))
		w.rename("e", ".hidden")
		w.write("x.json", site{"x", 1})
		w.after(second)
		w.rename(".hidden", "f")
		require.Empty(t, w.after(10*time.Second))
		require.NoError(t, os.Mkdir(w.path("g"), 0o755))
		for i := range 300 { // a checkout: first all are removed, then all are written
			w.remove(fmt.Sprintf("f/%d.json", i))
		}
		require.Empty(t, w.after(second))
		for i := range 300 {
			w.writeText(fmt.Sprintf("g/%d.json", i), "")
		}
		require.Empty(t, w.after(10*time.Millisecond))
		for i := range 300 {
			w.write(fmt.Sprintf("g/%d.json", i), site{fmt.Sprint(i), 2})
		}
		calls := w.after(10 * time.Second)
		require.Len(t, calls, 300)
		require.NotContains(t, strings.Join(calls, " "), "delete")
	})
}

func TestFileThatHasAKeyKeepsIt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("b.json", site{"a", 1}, site{"b", 1})
		w.start()
		w.after(0)
		w.write("a.json", site{"a", 5}, site{"c", 1}) // the rest of it counts
		require.Equal(t, []string{"add c.1"}, w.after(10*time.Second))
		require.Equal(t, []string{"informer: watch sites: files: a.json: a is also in b.json, which counts"}, w.errors())
		require.NoError(t, w.cache.Unread("a"))
		w.write("b.json", site{"a", 2}, site{"b", 1}) // the owner may change it
		require.Equal(t, []string{"update a.1 to a.2"}, w.after(10*time.Second))
		require.Len(t, w.source.Problems(), 1)
		w.remove("b.json")
		require.Equal(t, []string{"update a.2 to a.5", "delete b.1"}, w.after(10*time.Second))
		require.Empty(t, w.source.Problems())
		require.Empty(t, w.errors())

		w.write("d.json", site{"d", 1}, site{"d", 2})
		require.Equal(t, []string{"add d.1"}, w.after(10*time.Second))
		require.EqualError(t, errors.Join(w.source.Problems()...), "files: d.json: the file has d twice; the first one counts")
		w.remove("d.json")
		w.after(10 * time.Second)
		require.Empty(t, w.source.Problems())
	})
}

func TestFirstOfTwoNewFilesGetsTheKey(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("2.json", site{"a", 2})
		w.write("d/0.json", site{"a", 3})
		w.write("1.json", site{"a", 1})
		require.Equal(t, []site{{"a", 1}}, w.list().Items)
		require.Len(t, w.source.Problems(), 2)
	})
}

// config is a volume of Kubernetes with a ConfigMap: a swap replaces all its files at once.
func (w *world) swap(release int, names ...string) {
	w.t.Helper()
	data := fmt.Sprintf("..%d", release)
	for _, name := range names {
		w.write(data+"/"+name+".json", site{name, release})
		if _, err := os.Lstat(w.path(name + ".json")); errors.Is(err, fs.ErrNotExist) {
			w.link("..data/"+name+".json", name+".json")
		}
	}
	w.link(data, "..new")
	w.rename("..new", "..data")
	if release > 0 {
		w.remove(fmt.Sprintf("..%d", release-1))
	}
}

func TestConfigMapIsReplacedAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		names := strings.Fields("a b c")
		w.swap(0, names...)
		w.start()
		require.Len(t, w.after(0), 3)
		for release := range 9 {
			w.swap(release+1, names...)
			calls := w.after(second)
			require.Len(t, calls, 3)
			require.NotContains(t, strings.Join(calls, " "), "delete")
		}
		require.Empty(t, w.errors())
	})
}

func TestRootBelowALink(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		top := w.dir
		w.dir += "/rev1"
		w.write("d/a.json", site{"a", 1})
		w.dir = top + "/rev2"
		w.write("d/a.json", site{"a", 2})
		require.NoError(t, os.Symlink("rev1", top+"/current"))
		w.source = open(t, top+"/current", files.Config[site]{Interval: time.Hour})
		w.start()
		w.after(0)
		require.NoError(t, os.Symlink("rev2", top+"/new"))
		require.NoError(t, os.Rename(top+"/new", top+"/current"))
		w.source.Nudge("somewhere") // whatever it names, every directory is another one
		require.Equal(t, []string{"update a.1 to a.2"}, w.after(second))
	})
}

func TestRootThatIsMissingOrEmptyIsAnError(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		top := w.dir
		w.dir += "/root"
		w.source = open(t, w.dir, files.Config[site]{})
		_, err := w.source.List(t.Context())
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, os.Mkdir(w.dir, 0o755))
		_, err = w.source.List(t.Context())
		require.EqualError(t, err, "files: list: "+w.dir+": there are no files: is it mounted? Config.Empty permits that")
		w.write("d/a.json", site{"a", 1})
		w.start()
		w.after(0)

		require.NoError(t, os.Rename(w.dir, top+"/away"))
		require.Empty(t, w.after(5*time.Minute))
		require.Len(t, w.errors(), 1)
		require.NoError(t, os.Mkdir(w.dir, 0o755))
		require.Empty(t, w.after(5*time.Minute))
		require.Len(t, w.errors(), 1)
		require.True(t, w.cache.Stale(time.Minute))
		require.NoError(t, os.Remove(w.dir))
		require.NoError(t, os.Rename(top+"/away", w.dir))
		require.Empty(t, w.after(5*time.Minute))
		require.Empty(t, w.errors())
		require.False(t, w.cache.Stale(time.Minute))
		w.has(site{"a", 1})
	})
}

func TestEmptyRootIsPermitted(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Empty = true }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.start()
		w.after(0)
		w.remove("a.json")
		require.Equal(t, []string{"delete a.1"}, w.after(10*time.Second))
		require.Empty(t, w.list().Items)
	})
}

func TestFileOfTheSameSizeAndTimeIsReadAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.start()
		w.after(time.Minute)
		info, err := os.Stat(w.path("a.json"))
		require.NoError(t, err)
		w.write("a.json", site{"a", 2})
		require.NoError(t, os.Chtimes(w.path("a.json"), time.Time{}, info.ModTime()))
		require.Equal(t, []string{"update a.1 to a.2"}, w.after(second))
	})
}

func TestWhatIsNoFileIsAProblem(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.MaxSize = 100 }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.link("nowhere", "dangling.json")
		w.link("loop.json", "loop.json")
		require.NoError(t, os.Mkdir(w.path("d"), 0o755))
		w.link(".", "here") // nothing new
		w.link("..", "d/up")
		w.writeText("big.json", strings.Repeat(" ", 101))
		list := w.list()
		require.Equal(t, []site{{"a", 1}}, list.Items)
		require.Equal(t, []string{
			"files: big.json: the file has 101 bytes, more than Config.MaxSize, 100",
			"files: dangling.json: no such file or directory",
			"files: loop.json: too many levels of symbolic links",
		}, texts(list.Missing))
	})
}

func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestLinksLeadOutOfTheRoot(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		top := w.dir
		w.dir = top + "/other"
		w.write("b.json", site{"b", 1})
		w.write("d/c.json", site{"c", 1})
		w.dir = top + "/root"
		w.write("a.json", site{"a", 1})
		w.link(top+"/other/b.json", "b.json")
		w.link("../other/d", "d")
		w.source = open(t, w.dir, files.Config[site]{})
		w.start()
		w.has(site{"a", 1}, site{"b", 1}, site{"c", 1})
		w.after(time.Second)
		require.NoError(t, os.Rename(top+"/other", top+"/away")) // two links that lead nowhere
		require.Empty(t, w.after(5*time.Minute))
		require.NoError(t, os.Rename(top+"/away", top+"/other"))
		w.after(time.Minute)
		require.NoError(t, errors.Join(w.cache.Unread("b"), w.cache.Unread("c"), w.cache.Unread("d")))
		w.has(site{"a", 1}, site{"b", 1}, site{"c", 1})
	})
}

func TestNamesThatDoNotCount(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		for name := range strings.FieldsSeq(".a.json .git/b.json c.json~ #d.json d/.e.json d/f.json~ d/#g.json h.json") {
			w.write(name, site{name, 1})
		}
		require.Equal(t, []site{{"h.json", 1}}, w.list().Items)
		match := func(path string) bool { return path == "d/f.json~" }
		list, err := open(t, w.dir, files.Config[site]{Match: match}).List(t.Context())
		require.NoError(t, err)
		require.Equal(t, []site{{"d/f.json~", 1}}, list.Items)
	})
}

func TestNudgeComparesOneDirectory(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval = -1 }, func(t *testing.T, w *world) {
		w.write("a/a.json", site{"a", 1})
		w.write("b/b.json", site{"b", 1})
		w.start()
		w.after(0)
		dirs, changed := w.source.Dirs()
		require.Equal(t, []string{".", "a", "b"}, dirs)
		w.write("a/a.json", site{"a", 2})
		w.write("a/new/c.json", site{"c", 1})
		w.write("b/b.json", site{"b", 2})
		require.Empty(t, w.after(5*time.Minute))
		w.source.Nudge("a")
		require.Equal(t, []string{"update a.1 to a.2", "add c.1"}, w.after(second))
		<-changed
		dirs, _ = w.source.Dirs()
		require.Equal(t, []string{".", "a", "a/new", "b"}, dirs)
		w.source.Nudge("b", "no/such/directory")
		require.Equal(t, []string{"update b.1 to b.2"}, w.after(second))

		w.rename("a/a.json", "b/a.json") // its old directory alone does not show that it has moved
		w.source.Nudge("a")
		require.Empty(t, w.after(time.Minute))
		w.has(site{"a", 2}, site{"b", 2}, site{"c", 1})
		w.remove("a")
		w.source.Nudge("a")
		require.Equal(t, []string{"delete c.1"}, w.after(time.Minute))
		w.source.Nudge()
		require.Empty(t, w.after(time.Minute))
	})
}

func TestKeyThatHasLeftADirectoryMayBeInAnother(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval, c.Grace = -1, -1 }, func(t *testing.T, w *world) {
		w.write("a/a.json", site{"a", 1})
		w.write("b/b.json", site{"b", 1})
		w.start()
		w.after(0)
		w.rename("a/a.json", "b/a.json")
		w.source.Nudge("a")
		require.Empty(t, w.after(time.Minute))
		w.has(site{"a", 1}, site{"b", 1})
		w.remove("b/a.json")
		w.source.Nudge("b")
		require.Equal(t, []string{"delete a.1"}, w.after(time.Minute))
	})
}

func TestListDuringOutageKeepsNudges(t *testing.T) {
	inBubble(t, func(c *files.Config[site]) { c.Interval = -1 }, func(t *testing.T, w *world) {
		w.write("a.json", site{"a", 1})
		w.start()
		w.after(0)
		w.write("a.json", site{"a", 2})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.source.Nudge()
		_, err := w.source.List(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{"update a.1 to a.2"}, w.after(second))
	})
}

func TestBookmarkPeriod(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, 2050*time.Millisecond, open(t, dir, files.Config[site]{}).BookmarkPeriod())
	require.Zero(t, open(t, dir, files.Config[site]{Interval: -1}).BookmarkPeriod())
	require.Equal(t, dir, open(t, dir, files.Config[site]{}).Root())
}

func TestNewNamesInvalidFields(t *testing.T) {
	_, err := files.New("d", decode, nameOf, files.Config[site]{ReadTimeout: -1, MaxSize: -2, History: -3})
	require.EqualError(t, err, "files: new source of d: Config.ReadTimeout is -1ns, must not be negative; "+
		"Config.MaxSize is -2, must not be negative; Config.History is -3, must not be negative")
	require.Panics(t, func() { _, _ = files.New[string, site]("d", nil, nameOf, files.Config[site]{}) })
}

var _ informer.Versioner = (*files.Source[string, site])(nil)

// The decoder swaps the release while the files are read.
func TestNoStateMixesTwoReleases(t *testing.T) {
	for _, how := range []string{"..data", "root"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, w *world) {
				names := strings.Fields("a b c")
				top, root := w.dir, w.dir
				if how == "root" {
					root += "/current"
					for release := range 5 {
						for _, name := range names {
							w.write(fmt.Sprintf("rev%d/%s.json", release, name), site{name, release})
						}
					}
				}
				swap := func(release int) {
					if how == "..data" {
						w.swap(release, names...)
						return
					}
					require.NoError(t, os.Symlink(fmt.Sprint("rev", release), top+"/new"))
					require.NoError(t, os.Rename(top+"/new", root))
				}
				swap(0)
				release := 0
				src, err := files.New(root, func(path string, data []byte) ([]site, error) {
					if path == "b.json" && release < 4 && release%2 == 0 {
						release++
						swap(release)
					}
					return decode(path, data)
				}, nameOf, files.Config[site]{})
				require.NoError(t, err)
				for range 3 {
					list, err := src.List(t.Context())
					require.NoError(t, err)
					require.Len(t, list.Items, 3)
					for _, s := range list.Items {
						require.Equal(t, list.Items[0].Rev, s.Rev)
					}
					time.Sleep(time.Second)
					if release%2 == 1 {
						release++
						swap(release)
					}
				}
			})
		})
	}
}

// The release is swapped after one directory was listed, and before another is.
func TestDirectoriesOfTwoReleasesAreNotMixed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		swap := func(release int) {
			data := fmt.Sprintf("..%d", release)
			w.write(data+"/x/a.json", site{"a", release})
			w.write(data+"/y/b.json", site{"b", release})
			w.link(data, "..new")
			w.rename("..new", "..data")
		}
		swap(1)
		w.link("..data/x", "x")
		w.link("..data/y", "y")
		var armed atomic.Bool
		w.source = open(t, w.dir, files.Config[site]{Match: func(path string) bool {
			if path == "x/a.json" && armed.CompareAndSwap(true, false) {
				swap(2)
			}
			return true
		}})
		w.start()
		require.Len(t, w.after(500*time.Millisecond), 2)
		armed.Store(true)
		for range 30 {
			require.NotEqual(t, 1, len(w.after(100*time.Millisecond)))
		}
		require.False(t, armed.Load())
		w.has(site{"a", 2}, site{"b", 2})
	})
}
