package files_test

import (
	"fmt"
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

// FuzzContents puts any bytes into a file, in place of good ones: the object of another file stays, one of this file that the bytes do not
// decode to is not deleted unless they decode, and when the file is good again, all is well.
func FuzzContents(f *testing.F) {
	f.Add([]byte(""), []byte("{}"))
	f.Add(encode(site{"a", 2})[:9], encode(site{"b", 2}))
	f.Add(encode(site{"b", 2}, site{"a", 1}), []byte("\xff"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		dir := looptest.MemoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, dir: dir, source: open(t, dir, files.Config[site]{Valid: valid, Grace: -1})}
			w.write("a.json", site{"a", 1})
			w.write("b.json", site{"b", 1})
			w.start()
			for _, content := range [][]byte{one, two} {
				w.writeText("a.json", string(content))
				w.after(second)
				if _, err := decode("", content); err != nil || len(content) == 0 {
					_, exists := w.cache.Get("a")
					require.True(t, exists || w.cache.Unread("a") != nil)
					require.Error(t, w.cache.Missing())
				}
				_, exists := w.cache.Get("b")
				require.True(t, exists)
			}
			w.write("a.json", site{"a", 3})
			w.after(time.Minute)
			w.has(site{"a", 3}, site{"b", 1})
			require.NoError(t, w.cache.Missing())
			w.stop()
		})
	})
}

// FuzzTree plays a program of changes, with comparisons of the whole tree and of single directories in between. In the end, an informer that has
// followed has the same as a new source.
func FuzzTree(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(20) {
		chance := looptest.NewChance(seed, 1)
		program := make([]byte, 200)
		for i := range program {
			program[i] = byte(chance.UpTo(256))
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		dir := looptest.MemoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			cfg := files.Config[site]{Valid: valid, Grace: 100 * time.Millisecond, Interval: -1, Empty: true}
			w := &world{t: t, dir: dir, source: open(t, dir, cfg)}
			w.start()
			for rev := 0; len(program) > 1; rev++ {
				what, arg := program[0], program[1]
				program = program[2:]
				sub := fmt.Sprintf("d%d", arg%3)
				name := fmt.Sprintf("%s/f%d.json", sub, arg/3%4)
				key := fmt.Sprintf("k%d", what/16%6)
				require.NoError(t, os.MkdirAll(w.path(sub), 0o755))
				switch what % 12 {
				case 0, 1, 2:
					w.write(name, site{key, rev})
				case 3:
					w.write(name, site{key, rev}, site{"k0", rev})
				case 4:
					w.remove(name)
				case 5:
					_ = os.Rename(w.path(name), w.path(fmt.Sprintf("d%d/f%d.json", what/16%3, arg/16%4)))
				case 6:
					w.writeText(name, "{")
				case 7:
					w.remove(sub)
				case 8:
					w.remove("other")
					_ = os.Rename(w.path(sub), w.path("other"))
				case 9:
					w.source.Nudge()
				case 10:
					w.source.Nudge(sub)
				case 11:
					w.after(time.Duration(arg) * time.Millisecond)
				}
			}
			// In the end no file is bad.
			for range 2 { // the second time for files that the first has made conflicts of
				paths, _ := filepath.Glob(w.path("*/*.json"))
				for i, path := range paths {
					require.NoError(t, replaceFile(path, encode(site{fmt.Sprint("end", i%5), i}, site{"k0", i})))
				}
				w.source.Nudge()
				w.after(time.Minute)
			}
			for _, path := range func() []string { all, _ := filepath.Glob(w.path("*/*.json")); return all }()[min(1, len(w.list().Items)):] {
				require.NoError(t, os.Remove(path)) // no key is in two files anymore
			}
			w.source.Nudge()
			w.after(time.Minute)
			list, err := open(t, dir, cfg).List(t.Context())
			require.NoError(t, err)
			w.has(list.Items...)
			require.NoError(t, w.cache.Missing())
			require.Empty(t, w.source.Problems())
			var unread []string
			for key := range w.cache.AllUnread() {
				unread = append(unread, key)
			}
			require.Empty(t, unread)
			w.stop()
		})
	})
}

var _ informer.ListWatcher[site] = (*files.Source[string, site])(nil)
