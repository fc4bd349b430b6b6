package informer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

// world is an informer, its source, its handlers, and the plain truth about all of them.
type world struct {
	t         *testing.T
	rnd       *rand.Rand
	src       *informertest.Source[string, site]
	in        *informer.Informer[string, site]
	truth     map[string]site
	lives     map[string]int
	rev       int
	gaps      bool // the history may be lost
	recorders []*recorder
}

func newWorld(t *testing.T, seed uint64, gaps bool) *world {
	src := newSource()
	return &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), src: src, gaps: gaps,
		in:    must(informer.New(src, nameOf, informer.Config{ResyncPeriod: 7 * time.Minute, OnError: func(error) {}})),
		truth: make(map[string]site), lives: make(map[string]int),
	}
}

func (w *world) put(name string) {
	w.rev++
	w.truth[name] = site{Name: name, Life: w.lives[name], Rev: w.rev}
	w.src.Put(w.truth[name])
}

func (w *world) delete(name string) {
	delete(w.truth, name)
	w.lives[name]++
	w.src.Delete(name)
}

// addHandler adds a handler that may be slow.
func (w *world) addHandler() *recorder {
	r := newRecorder(w.t)
	r.gaps = w.gaps
	if pause := time.Duration(w.rnd.IntN(3)) * time.Second; pause > 0 {
		r.pause = func() { time.Sleep(pause) }
	}
	w.recorders = append(w.recorders, r.add(w.in))
	return r
}

func (w *world) act() {
	name := fmt.Sprint(w.rnd.IntN(5))
	switch w.rnd.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		w.put(name)
	case 8, 9, 10, 11:
		w.delete(name)
	case 12:
		w.delete(name)
		w.put(name)
	case 13:
		w.src.Bookmark()
	case 14:
		w.src.Break(nil)
	case 15:
		w.src.Break(errOutage)
	case 16:
		w.src.Fail(errOutage)
	case 17:
		w.src.Fail(nil)
	case 18:
		if w.gaps {
			w.src.Compact()
		}
	case 19:
		w.addHandler()
	case 20:
		w.removeHandler()
	case 21:
		time.Sleep(time.Duration(w.rnd.IntN(500)) * time.Second)
	default:
		time.Sleep(time.Duration(w.rnd.IntN(5000)) * time.Millisecond)
	}
}

// removeHandler removes a handler, which must not be called after.
func (w *world) removeHandler() {
	if len(w.recorders) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.recorders))
	r := w.recorders[i]
	w.recorders = slices.Delete(w.recorders, i, i+1)
	<-r.reg.Remove()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.check = func() { w.t.Error("a callback runs after Remove has returned") }
}

// settle lets the world come to rest and compares it with the truth.
func (w *world) settle() {
	w.src.Fail(nil)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	require.NoError(w.t, informer.CheckInvariants(w.in))
	require.Equal(w.t, w.truth, contents(w.in))
	require.Equal(w.t, w.src.Version(), w.in.Version())
	for _, r := range w.recorders {
		require.Equal(w.t, w.truth, r.state())
		require.True(w.t, r.reg.HasSynced())
	}
	late := newRecorder(w.t).add(w.in)
	require.Len(w.t, late.take(), len(w.truth))
	require.True(w.t, late.reg.HasSynced())
	<-late.reg.Remove()
}

func TestCacheAndHandlersConverge(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, seed%2 == 0)
				start(t, w.in)
				for range 10 {
					for range 20 {
						w.act()
						if w.rnd.IntN(2) == 0 {
							synctest.Wait()
							assert.NoError(t, informer.CheckInvariants(w.in))
						}
					}
					w.settle()
				}
			})
		})
	}
}

// story is a world whose handlers are held up, so that each step meets them where the steps before have left them.
type story struct {
	*world
	missing bool // the source is unreachable
}

// step is one line of a story. possible is false for one that would do nothing.
type step struct {
	name     string
	possible func(*story) bool
	do       func(*story)
}

var steps = []step{
	{"put a", nil, func(s *story) { s.put("a") }},
	{"delete a", func(s *story) bool { return s.truth["a"] != site{} }, func(s *story) { s.delete("a") }},
	{"put b", nil, func(s *story) { s.put("b") }},
	{"delete b", func(s *story) bool { return s.truth["b"] != site{} }, func(s *story) { s.delete("b") }},
	{"the first handler returns", func(s *story) bool { return s.recorders[0].isBusy() }, func(s *story) {
		s.recorders[0].gate <- struct{}{}
	}},
	{"another handler joins", func(s *story) bool { return len(s.recorders) < 2 }, func(s *story) { s.join() }},
	{"miss what follows", func(s *story) bool { return !s.missing }, func(s *story) {
		s.missing = true
		s.src.Fail(errOutage)
	}},
	{"list again", func(s *story) bool { return s.missing }, func(s *story) {
		s.missing = false
		s.src.Compact()
		s.src.Fail(nil)
		time.Sleep(2 * time.Second) // of the backoff
	}},
}

func (s *story) join() {
	r := newRecorder(s.t)
	r.gaps = s.gaps
	r.gate = make(chan struct{})
	s.recorders = append(s.recorders, r.add(s.in))
}

// playStory plays a story, and returns false when one of its steps would do nothing.
func playStory(t *testing.T, lines []step, gaps bool) (complete bool) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{world: newWorld(t, 0, gaps)}
		s.join()
		start(t, s.in)
		complete = true
		for _, line := range lines {
			if line.possible != nil && !line.possible(s) {
				complete = false
				break
			}
			line.do(s)
			synctest.Wait()
			require.NoError(t, informer.CheckInvariants(s.in))
		}
		for _, r := range s.recorders {
			close(r.gate)
		}
		if complete {
			s.settle()
		}
	})
	return complete
}

func TestEveryShortStoryConverges(t *testing.T) {
	length := 4
	if os.Getenv("SCHEDULE_DEPTH") != "" {
		length = 5
	}
	stories := 0
	var grow func(lines []step, gaps bool)
	grow = func(lines []step, gaps bool) {
		if len(lines) > 0 {
			if !playStory(t, lines, gaps) {
				return
			}
			stories++
		}
		if t.Failed() {
			for _, line := range lines {
				t.Log(line.name)
			}
			t.FailNow()
		}
		if len(lines) == length {
			return
		}
		for _, line := range steps {
			grow(append(lines[:len(lines):len(lines)], line), gaps || line.name == "miss what follows")
		}
	}
	grow(nil, false)
	t.Log(stories, "stories")
}

// chain is a handler that holds each call against the one before for its key. It is cheaper than a recorder.
type chain struct {
	mood    string
	calls   int
	removed atomic.Bool
	known   map[string]site // used by the goroutine of the handler, and after Remove or at rest
	wrong   error
}

// called notes a call, and stalls or panics as is the mood of c, when the call has been noted.
func (c *chain) called(what string, from *site, name string) (react func()) {
	c.calls++
	known, ok := c.known[name]
	switch {
	case c.removed.Load():
		c.wrong = errors.Join(c.wrong, fmt.Errorf("%s of %s after Remove", what, name))
	case ok != (from != nil), ok && from.Life != known.Life, ok && what == "update" && *from != known, ok && from.Rev < known.Rev:
		c.wrong = errors.Join(c.wrong, fmt.Errorf("%s of %s from %v, but %v is known", what, name, from, known))
	}
	return func() {
		switch {
		case c.mood == "slow" && c.calls%50 == 0:
			time.Sleep(time.Second)
		case c.mood == "panics" && c.calls%7 == 0:
			panic("oh dear")
		}
	}
}

func (c *chain) handler() informer.Handler[string, site] {
	return informer.Handler[string, site]{
		OnAdd: func(s site, _ bool) {
			react := c.called("add", nil, s.Name)
			c.known[s.Name] = s
			react()
		},
		OnUpdate: func(old, s site) {
			react := c.called("update", &old, s.Name)
			c.known[s.Name] = s
			react()
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			react := c.called("delete", &d.Object, d.Key)
			delete(c.known, d.Key)
			react()
		},
	}
}

// TestHandlersOfEveryKindFollowLongHistory is for the race detector: eight goroutines add and remove handlers, some slow and
// some that panic, while a source reports 20,000 changes of 200 objects, and of INFORMER_EVENTS in the long form. Whatever
// joins when, and however it behaves, gets one unbroken chain of calls for each key, and has in the end what the cache holds.
func TestHandlersOfEveryKindFollowLongHistory(t *testing.T) {
	const goroutines, keys = 8, 200
	events := 20_000
	if testing.Short() {
		events = 5_000
	}
	if text := os.Getenv("INFORMER_EVENTS"); text != "" {
		var err error
		events, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		var panics atomic.Int64
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) {
			if crash := (*wait.PanicError)(nil); errors.As(err, &crash) && crash.Value == "oh dear" {
				panics.Add(1)
			} else if !errors.Is(err, errOutage) {
				t.Error(err)
			}
		}}))
		stop := start(t, in)
		join := func(mood string) (*chain, informer.Registration) {
			c := &chain{mood: mood, known: make(map[string]site)}
			reg, err := in.AddHandler(c.handler())
			require.NoError(t, err)
			return c, reg
		}
		moods := []string{"quick", "slow", "panics"}
		var stay []*chain
		for _, mood := range moods {
			c, _ := join(mood)
			stay = append(stay, c)
		}

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		late := make([]*chain, goroutines)
		var came atomic.Int64
		for i := range goroutines {
			// It ends with ctx; wg waits for it.
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 2))
				for n := i; ; n++ {
					c, reg := join(moods[n%len(moods)])
					came.Add(1)
					if rnd.IntN(2) == 0 {
						_ = informer.WaitForSync(ctx, reg)
					}
					time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
					if ctx.Err() != nil {
						late[i] = c
						return
					}
					<-reg.Remove()
					c.removed.Store(true)
					if c.wrong != nil {
						t.Error(c.wrong)
					}
				}
			})
		}

		rnd := rand.New(rand.NewPCG(1, 1))
		lives := make(map[string]int)
		for rev := range events {
			name := strconv.Itoa(rnd.IntN(keys))
			switch rnd.IntN(8) {
			case 0:
				src.Delete(name)
				lives[name]++
			default:
				src.Put(site{Name: name, Life: lives[name], Rev: rev})
			}
			if rev%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
			if rev%1000 == 999 {
				src.Break(errOutage)
			}
		}
		cancel()
		wg.Wait()
		require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
		time.Sleep(time.Hour) // for the slow ones
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		for i, c := range append(stay, late...) {
			assert.NoError(t, c.wrong, "handler %d, which is %s", i, c.mood)
			assert.Equal(t, contents(in), c.known, "handler %d, which is %s", i, c.mood)
		}
		assert.NotEmpty(t, contents(in))
		assert.Positive(t, panics.Load())
		assert.Greater(t, came.Load(), int64(goroutines))
		stop()
		t.Log(came.Load(), "handlers,", panics.Load(), "panics")
	})
}
