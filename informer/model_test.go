package informer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
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
				sitetest.Start(t, w.in)
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
