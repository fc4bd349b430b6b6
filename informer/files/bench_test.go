package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// tree makes a directory of n files in 100 directories, older than any settling.
func tree(b *testing.B, n int) string {
	b.Helper()
	dir := looptest.MemoryDir(b)
	old := time.Now().Add(-time.Hour)
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprintf("site-%d.json", i))
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b, os.WriteFile(path, encode(site{fmt.Sprint(i), 1}), 0o644))
		require.NoError(b, os.Chtimes(path, old, old))
	}
	time.Sleep(2100 * time.Millisecond) // until they are not young by their times of change either
	return dir
}

func sizes(b *testing.B, f func(b *testing.B, n int, dir string)) {
	for _, n := range []int{1000, 100_000} {
		dir := tree(b, n)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) { f(b, n, dir) })
	}
}

func listed(b *testing.B, src *files.Source[string, site], n int) {
	b.Helper()
	list, err := src.List(b.Context())
	if err != nil || len(list.Items) != n || len(list.Missing) > 0 {
		b.Fatal(len(list.Items), list.Missing, err)
	}
}

// BenchmarkFirstList reads all files, and also reports the memory of the source.
func BenchmarkFirstList(b *testing.B) {
	sizes(b, func(b *testing.B, n int, dir string) {
		var before, after runtime.MemStats
		for b.Loop() {
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&before)
			src := open(b, dir, files.Config[site]{})
			b.StartTimer()
			listed(b, src, n)
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(src)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/file")
			b.StartTimer()
		}
	})
}

func BenchmarkListWithoutChange(b *testing.B) {
	sizes(b, func(b *testing.B, n int, dir string) {
		src := open(b, dir, files.Config[site]{})
		listed(b, src, n)
		for b.Loop() {
			listed(b, src, n)
		}
	})
}

// BenchmarkChangeToHandler is from a write, with a nudge, to the call of a handler. Settle, 50 ms by default, is part of it.
func BenchmarkChangeToHandler(b *testing.B) {
	for _, settle := range []time.Duration{-1, 50 * time.Millisecond} {
		b.Run(fmt.Sprintf("settle=%v", max(settle, 0)), func(b *testing.B) {
			sizes(b, func(b *testing.B, _ int, dir string) {
				src := open(b, dir, files.Config[site]{Interval: time.Minute, Settle: settle})
				in, err := informer.New(src, nameOf, informer.Config{})
				require.NoError(b, err)
				seen := make(chan int, 1000)
				_, err = in.AddHandler(informer.Handler[string, site]{OnUpdate: func(_, s site) { seen <- s.Rev }})
				require.NoError(b, err)
				looptest.Start(b, in.Run)
				require.NoError(b, informer.WaitForSync(b.Context(), in))
				rev := int(time.Now().UnixNano())
				for b.Loop() {
					rev++
					require.NoError(b, replaceFile(filepath.Join(dir, "7", "site-7.json"), encode(site{"7", rev})))
					src.Nudge("7")
					for got := <-seen; got != rev; got = <-seen {
						b.Fatal(got, rev)
					}
				}
			})
		})
	}
}
