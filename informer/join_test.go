package informer_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// chronicle is a source whose truth is known, and an informer of it.
type chronicle struct {
	src   *informertest.Source[string, site]
	in    *informer.Informer[string, site]
	rev   int
	lives map[string]int
	truth map[string]site
}

// newChronicle returns a source with objects of the given names, and an informer of it that does not run.
func newChronicle(names []string, cfg informer.Config) *chronicle {
	s := &chronicle{src: newSource(), lives: make(map[string]int), truth: make(map[string]site)}
	for _, name := range names {
		s.put(name)
	}
	s.in = must(informer.New(s.src, nameOf, cfg))
	return s
}

func numbers(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

func (s *chronicle) put(name string) {
	s.rev++
	s.truth[name] = site{Name: name, Life: s.lives[name], Rev: s.rev}
	s.src.Put(s.truth[name])
}

func (s *chronicle) delete(name string) {
	delete(s.truth, name)
	s.lives[name]++
	s.src.Delete(name)
}

func (s *chronicle) recreate(name string) { s.delete(name); s.put(name) }

// give lets a handler return from so many calls, and waits until it is in the next one.
func (r *recorder) give(n int) {
	for range n {
		r.gate <- struct{}{}
	}
	synctest.Wait()
}

func TestHandlerSyncsWithAnyNumberOfInitialObjects(t *testing.T) {
	const p = informer.PieceSize
	for _, n := range []int{1, p - 1, p, p + 1, 2 * p, 3*p + 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newChronicle(numbers(n), informer.Config{})
			start(t, s.in)
			late := newRecorder(t)
			late.gate = make(chan struct{})
			late.add(s.in)
			synctest.Wait()
			for reported := range n {
				require.False(t, late.reg.HasSynced(), "it has returned for %d objects of %d", reported, n)
				late.give(1)
			}
			assert.Len(t, late.state(), n)
			assert.True(t, late.reg.HasSynced())
			require.NoError(t, informer.CheckInvariants(s.in))
		})
	}
}

// tail returns what was reported behind the initial objects, without revisions.
func tail(calls []string) (reported []string) {
	for _, call := range calls {
		if !strings.HasSuffix(call, "initial=true") {
			reported = append(reported, revisions.ReplaceAllString(call, ""))
		}
	}
	return reported
}

var revisions = regexp.MustCompile(`\.\d+( \d+)?`)

// During the initial delivery to a handler, there are three rounds of changes: to objects already delivered, to
// objects not delivered yet, and of new objects.
func TestNoChangeIsLostDuringInitialDelivery(t *testing.T) {
	for _, c := range []struct {
		name  string
		every bool
		waits []int // after each time
		want  []string
	}{
		{"merged", false, []int{9, 9, 9}, []string{
			"delete early", "add early initial=false", "delete deleted", "delete again", "add again initial=false",
			"add latergone initial=false", "add lateragain initial=false", "add new initial=false",
			"add newagain initial=false", "add newer initial=false",
		}},
		{"every event", true, []int{12, 20, 25}, []string{
			"update early", "update early", "delete deleted", "delete again", "add again initial=false",
			"update later", "delete latergone", "delete lateragain", "add lateragain initial=false",
			"add new initial=false", "add newdeleted initial=false", "add newagain initial=false",
			"update early", "update later", "update new", "delete newdeleted", "delete newagain", "add newagain initial=false",
			"add latergone initial=false", "add newer initial=false",
			"delete early", "add early initial=false", "update later", "delete lateragain", "add lateragain initial=false",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChronicle(slices.Concat([]string{"early", "deleted", "again"}, numbers(3*informer.PieceSize-3),
					[]string{"later", "latergone", "lateragain"}), informer.Config{})
				start(t, s.in)
				late := newRecorder(t)
				late.gate = make(chan struct{})
				h := late.handler()
				h.EveryEvent = c.every
				reg, err := s.in.AddHandler(h)
				require.NoError(t, err)
				synctest.Wait()
				for i, changes := range []func(){
					func() {
						s.put("early")
						s.put("early")
						s.delete("deleted")
						s.recreate("again")
						s.put("later")
						s.delete("latergone")
						s.recreate("lateragain")
						s.put("new")
						s.put("newdeleted")
						s.put("newagain")
					},
					func() {
						s.put("early")
						s.put("later")
						s.put("new")
						s.delete("newdeleted")
						s.recreate("newagain")
						s.put("latergone")
						s.put("newer")
					},
					func() {
						s.recreate("early")
						s.put("later")
						s.recreate("lateragain")
					},
				} {
					late.give(informer.PieceSize - 1)
					changes()
					synctest.Wait()
					assert.Equal(t, []int{c.waits[i]}, informer.Pending(s.in), "after time %d", i+1)
					require.NoError(t, informer.CheckInvariants(s.in))
					assert.False(t, reg.HasSynced())
				}
				close(late.gate)
				assert.Equal(t, c.want, tail(late.take()))
				assert.Equal(t, s.truth, late.state())
				assert.Equal(t, s.truth, contents(s.in))
				assert.True(t, reg.HasSynced())
				require.NoError(t, informer.CheckInvariants(s.in))

				s.put("early")
				s.delete("newer")
				assert.Equal(t, []string{"update early", "delete newer"}, tail(late.take()))
			})
		})
	}
}

// Run may be at any point when a handler is added, so the test repeats this often.
func TestHandlerSeesEveryChangeAfterAddHandlerReturns(t *testing.T) {
	for _, every := range []bool{false, true} {
		t.Run(fmt.Sprint("every event: ", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChronicle([]string{"old"}, informer.Config{})
				start(t, s.in)
				for range 300 {
					late := newRecorder(t)
					h := late.handler()
					h.EveryEvent = every
					reg, err := s.in.AddHandler(h)
					require.NoError(t, err)
					s.put("k")
					s.put("y")
					s.delete("y")
					calls := strings.Join(late.take(), ", ")
					require.Regexp(t, `^add old\.\d+ initial=true, add k\.\d+ initial=false`, calls)
					if every {
						require.Regexp(t, `, add y\.\d+ initial=false, delete y\.\d+$`, calls)
					}
					require.Equal(t, s.truth, late.state())
					<-reg.Remove()
					s.delete("k")
					synctest.Wait()
				}
			})
		})
	}
}

// Each joining handler reads the current objects on its own.
func TestHandlersJoiningTogetherDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChronicle(numbers(3*informer.PieceSize), informer.Config{})
		blocked := newRecorder(t)
		blocked.gate = make(chan struct{})
		blocked.add(s.in)
		quick := newRecorder(t).add(s.in)
		start(t, s.in)
		assert.True(t, quick.reg.HasSynced())
		blocked.give(informer.PieceSize)
		s.put("1")
		s.delete(fmt.Sprint(2 * informer.PieceSize))
		synctest.Wait()
		close(blocked.gate)
		assert.Equal(t, s.truth, blocked.state())
		assert.Equal(t, s.truth, quick.state())
		assert.True(t, blocked.reg.HasSynced())
	})
}

// A handler releases the objects that existed when it joined, and were deleted since, once they are delivered or the
// handler ends.
func TestHandlerReleasesItsInitialObjects(t *testing.T) {
	const n = 3 * informer.PieceSize
	for name, end := range map[string]func(gate chan struct{}, reg informer.Registration, stop func()){
		"when it has been delivered": func(gate chan struct{}, _ informer.Registration, _ func()) {
			for range n {
				gate <- struct{}{}
			}
		},
		"when it is removed":                func(_ chan struct{}, reg informer.Registration, _ func()) { <-reg.Remove() },
		"when Run ends":                     func(_ chan struct{}, _ informer.Registration, stop func()) { stop() },
		"when it was deleted and delivered": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var old []weak.Pointer[site]
				lists := 0
				src := &pointers{list: func() []informer.List[*site] {
					lists++
					list := informer.List[*site]{Version: informer.Version(lists)}
					for i := range n {
						list.Items = append(list.Items, &site{Name: fmt.Sprint(i)})
						if lists == 1 {
							old = append(old, weak.Make(list.Items[i]))
						}
					}
					return []informer.List[*site]{list}
				}}
				in := must(informer.New(src, func(s *site) string { return s.Name }, informer.Config{}))
				gate := make(chan struct{})
				reg, err := in.AddHandler(informer.Handler[string, *site]{OnAdd: func(*site, bool) { <-gate }})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- in.Run(ctx) }() // ends with ctx; waited for below
				if end == nil {
					close(gate)
				}
				time.Sleep(time.Minute) // the watch expires
				synctest.Wait()
				require.Equal(t, 2, lists)
				if end != nil {
					runtime.GC()
					assert.NotNil(t, old[n-1].Value(), "it is not delivered yet")
					go end(gate, reg, cancel) // it waits for the callback
					synctest.Wait()
					close(gate)
				}
				synctest.Wait()
				runtime.GC()
				for i := range old {
					require.Nil(t, old[i].Value(), "object %d", i)
				}
				cancel()
				assert.NoError(t, <-ended)
			})
		})
	}
}
