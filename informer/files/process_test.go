package files_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

var cycles = flag.Int("cycles", 2, "how often writers are killed in TestCacheFollowsWritersThatAreKilled")

// The environment of a process that writes.
const (
	writerDir  = "SETPOINT_FILES_WRITER"
	writerName = "SETPOINT_FILES_WRITER_NAME"
)

const (
	writers    = 3
	keysOfEach = 8
)

// writeForever changes the files of one writer at random, until its standard input ends. Then it writes all its keys properly, says which, and
// exits. The keys with even numbers always exist: they are moved and rewritten, but never deleted. Revisions are times, so they grow across
// restarts.
func writeForever() {
	dir, name := os.Getenv(writerDir), os.Getenv(writerName)
	ended := make(chan struct{})
	go func() { // ends with the standard input
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	key := func(i int) string { return fmt.Sprint(name, "-", i) }
	path := func(i, place int) string { return filepath.Join(dir, fmt.Sprint("d", place), key(i)+".json") }
	content := func(i int) []byte {
		return encode(site{key(i), int(time.Now().UnixNano())}, site{key(i) + "-twin", int(time.Now().UnixNano())})
	}
	clean := func(i, but int) {
		for place := range 3 {
			if place != but {
				_ = os.Remove(path(i, place))
			}
		}
	}
	fmt.Println("writing")
	for {
		select {
		case <-ended:
			for i := range keysOfEach {
				if err := replaceFile(path(i, 0), content(i)); err != nil {
					panic(err)
				}
				clean(i, 0)
			}
			os.Exit(0)
		default:
		}
		i, place := rand.IntN(keysOfEach), rand.IntN(3)
		switch rand.IntN(5) {
		case 0: // in place, slowly
			text := content(i)
			if f, err := os.Create(path(i, place)); err == nil {
				half := rand.IntN(len(text))
				_, _ = f.Write(text[:half])
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				_, _ = f.Write(text[half:])
				_ = f.Close()
				clean(i, place)
			}
		case 1:
			_ = replaceFile(path(i, place), content(i))
			clean(i, place)
		case 2: // a move, with two renames
			for from := range 3 {
				if os.Rename(path(i, from), path(i, place)) == nil {
					break
				}
			}
		case 3: // as git does
			clean(i, -1)
			_ = os.WriteFile(path(i, place), content(i), 0o644)
		case 4:
			if i%2 == 1 {
				clean(i, -1)
			} else {
				_ = os.WriteFile(path(i, place), nil, 0o644)
				_ = os.WriteFile(path(i, place), content(i), 0o644)
				clean(i, place)
			}
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	}
}

// writer is a process that writes.
type writer struct {
	*exec.Cmd
	in io.WriteCloser
}

func startWriter(t *testing.T, dir, name string) *writer {
	t.Helper()
	w := &writer{Cmd: exec.Command(os.Args[0])}
	w.Env = append(os.Environ(), writerDir+"="+dir, writerName+"="+name)
	w.Stderr = os.Stderr
	out, err := w.StdoutPipe()
	require.NoError(t, err)
	w.in, err = w.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "writing\n", line)
	return w
}

// Processes write, and are killed and started again, at any moment. No object goes back to an older state, none that always exists is deleted,
// and in the end the cache has what the files have.
func TestCacheFollowsWritersThatAreKilled(t *testing.T) {
	for cycle := range *cycles {
		dir := looptest.MemoryDir(t)
		for place := range 3 {
			require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprint("d", place)), 0o755))
		}
		src := open(t, dir, files.Config[site]{
			Interval: 20 * time.Millisecond, Settle: 30 * time.Millisecond, Grace: 400 * time.Millisecond, Empty: true,
		})
		in, err := informer.New(src, nameOf, informer.Config{OnError: func(error) {}})
		require.NoError(t, err)
		log := &history{revs: make(map[string]int)}
		_, err = in.AddHandler(informer.Handler[string, site]{
			OnAdd: func(s site, _ bool) { log.saw(s) }, OnUpdate: func(_, s site) { log.saw(s) },
			OnDelete: func(d cache.Tombstone[string, site]) { log.deleted(d.Key) },
		})
		require.NoError(t, err)
		running := looptest.Start(t, in.Run)
		var all []*writer
		for i := range writers {
			all = append(all, startWriter(t, dir, fmt.Sprint("w", i)))
		}
		for range 3 {
			time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond) // the writers write
			i := rand.IntN(writers)
			require.NoError(t, all[i].Process.Kill())
			_ = all[i].Wait()
			all[i] = startWriter(t, dir, fmt.Sprint("w", i))
		}
		for _, w := range all {
			require.NoError(t, w.in.Close())
			require.NoError(t, w.Wait())
		}
		want := make(map[string]site)
		for i := range writers {
			for k := range keysOfEach {
				data, err := os.ReadFile(filepath.Join(dir, "d0", fmt.Sprintf("w%d-%d.json", i, k)))
				require.NoError(t, err)
				sites, err := decode("", data)
				require.NoError(t, err)
				for _, s := range sites {
					want[s.Name] = s
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, in.CatchUp(ctx))
		cancel()
		got := maps.Collect(in.All())
		require.Equal(t, want, got, "cycle %d", cycle)
		require.NoError(t, in.Missing())
		require.NoError(t, running.Stop())
		require.Empty(t, log.wrong(), "cycle %d", cycle)
	}
}

// history checks what a handler sees.
type history struct {
	mu     sync.Mutex
	revs   map[string]int
	wrongs []string
}

func (h *history) saw(s site) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Rev < h.revs[s.Name] {
		h.wrongs = append(h.wrongs, s.Name+" goes back")
	}
	h.revs[s.Name] = s.Rev
}

func (h *history) deleted(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, _ := strconv.Atoi(strings.Split(key, "-")[1])
	if n%2 == 0 {
		h.wrongs = append(h.wrongs, key+" is deleted")
	}
}

func (h *history) wrong() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrongs
}
