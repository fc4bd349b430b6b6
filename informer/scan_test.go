package informer_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// brake stops Run in the middle of each step, so that a test says what happens between two pieces of a scan. It does so
// with an object of its own, which an index waits for.
type brake struct {
	src     *informertest.Source[string, site]
	in      *informer.Informer[string, site]
	release chan struct{}
	rev     int
	lives   map[string]int
	truth   map[string]site
}

// newBrake returns a brake of an informer with objects of the given names, its own, and a handler. Run stands when it returns.
func newBrake(t *testing.T, names []string) *brake {
	b := &brake{src: newSource(), release: make(chan struct{}), lives: make(map[string]int), truth: make(map[string]site)}
	for _, name := range names {
		b.put(name)
	}
	b.in = informer.New(b.src, nameOf, informer.Config{})
	newRecorder(t).add(b.in)
	start(t, b.in)
	cache.AddIndex(b.in.Indexer(), func(s site) []int {
		if s.Name == "brake" {
			<-b.release
		}
		return nil
	})
	b.put("brake")
	synctest.Wait()
	return b
}

func numbers(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

func (b *brake) put(name string) {
	b.rev++
	b.truth[name] = site{Name: name, Life: b.lives[name], Rev: b.rev}
	b.src.Put(b.truth[name])
}

func (b *brake) delete(name string) {
	delete(b.truth, name)
	b.lives[name]++
	b.src.Delete(name)
}

// step lets Run end its step, which takes each scan a piece further, and stops it in the next one, which has applied the
// changes but told nobody.
func (b *brake) step(changes func()) {
	if changes != nil {
		changes()
	}
	b.put("brake")
	synctest.Wait() // the reflector has passed on all of it
	b.release <- struct{}{}
	synctest.Wait()
}

// open lets Run run.
func (b *brake) open() {
	close(b.release)
	synctest.Wait()
}

func TestAHandlerHasSyncedWhenItHasJoinedHoweverManyObjectsThereAre(t *testing.T) {
	for _, n := range []int{1, informer.ScanChunk, informer.ScanChunk + 1, 2 * informer.ScanChunk, 3*informer.ScanChunk + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBrake(t, numbers(n-1))
				late := newRecorder(t).add(b.in)
				for told := informer.ScanChunk; told < n; told += informer.ScanChunk {
					b.step(nil)
					assert.Len(t, late.take(), informer.ScanChunk)
					assert.False(t, late.reg.HasSynced(), "it has returned for %d objects of %d", told, n)
					assert.Len(t, informer.Waiting(b.in), 1, "it has not joined")
				}
				b.open()
				assert.Len(t, late.state(), n)
				assert.True(t, late.reg.HasSynced())
				assert.Len(t, informer.Waiting(b.in), 2)
				require.NoError(t, informer.CheckInvariants(b.in))
			})
		})
	}
}

func (b *brake) recreate(name string) { b.delete(name); b.put(name) }

// tail returns what was told behind the initial objects, without revisions.
func tail(calls []string) (told []string) {
	for _, call := range calls {
		if !strings.HasSuffix(call, "initial=true") {
			told = append(told, revisions.ReplaceAllString(call, ""))
		}
	}
	return told
}

var revisions = regexp.MustCompile(`\.\d+( \d+)?`)

// A handler joins in four pieces. After each of them there are changes of objects that it was told of, of objects that are
// still to come, and of objects that were not there.
func TestNothingIsLostThatHappensWhileAHandlerJoinsInPieces(t *testing.T) {
	fresh := []string{
		"add lateragain initial=false", "add new initial=false", "add newagain initial=false",
		"add latergone initial=false", "add newer initial=false",
	}
	for _, c := range []struct {
		name        string
		every, busy bool
		held        []int // after each piece
		want        []string
	}{
		{"and it is quick", false, false, []int{0, 3, 3}, []string{
			"delete told", "add told initial=false", "delete gone", "delete again", "add again initial=false",
		}},
		{"and it is in its first call all the time", false, true, []int{0, 3, 3}, []string{
			"delete told", "add told initial=false", "add again initial=false",
		}},
		{"and it wants every event", true, false, []int{0, 5, 6}, []string{
			"update told", "update told", "delete gone", "delete again", "add again initial=false", "update told",
			"delete told", "add told initial=false",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBrake(t, slices.Concat([]string{"told", "gone", "again"}, numbers(3*informer.ScanChunk-3),
					[]string{"later", "latergone", "lateragain"}))
				late := newRecorder(t)
				if c.busy {
					late.gate = make(chan struct{})
				}
				h := late.handler()
				h.EveryEvent = c.every
				reg, err := b.in.AddHandler(h)
				require.NoError(t, err)
				for i, changes := range []func(){
					func() {
						b.put("told")
						b.put("told")
						b.delete("gone")
						b.recreate("again")
						b.put("later")
						b.delete("latergone")
						b.recreate("lateragain")
						b.put("new")
						b.put("newgone")
						b.put("newagain")
					},
					func() {
						b.put("told")
						b.put("later")
						b.put("new")
						b.delete("newgone")
						b.recreate("newagain")
						b.put("latergone")
						b.put("newer")
					},
					func() {
						b.recreate("told")
						b.put("later")
						b.recreate("lateragain")
					},
				} {
					b.step(changes)
					_, held := informer.Held(b.in)
					assert.Equal(t, []int{c.held[i]}, held, "after piece %d", i+1)
					assert.False(t, reg.HasSynced())
				}
				b.open()
				if c.busy {
					close(late.gate)
				}
				assert.Equal(t, slices.Concat(c.want, fresh), tail(late.take()))
				assert.Equal(t, b.truth, late.state())
				assert.Equal(t, b.truth, contents(b.in))
				assert.True(t, reg.HasSynced())
				require.NoError(t, informer.CheckInvariants(b.in))

				b.put("told")
				b.delete("newer")
				assert.Equal(t, []string{"update told", "delete newer"}, tail(late.take()))
			})
		})
	}
}

func TestAHandlerThatIsRemovedWhileItJoinsInPiecesDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrake(t, append(numbers(2*informer.ScanChunk), "last"))
		removed, other := newRecorder(t).add(b.in), newRecorder(t).add(b.in)
		b.step(nil)
		assert.Len(t, removed.take(), informer.ScanChunk)
		b.step(func() { b.put("0"); b.put("new") })
		_, held := informer.Held(b.in)
		assert.Equal(t, []int{0, 0}, held, "what has come is not told yet")
		removed.reg.Remove()
		assert.Len(t, removed.take(), informer.ScanChunk)
		b.step(func() { b.put("0"); b.put("last") })
		b.open()
		b.put("1")
		assert.Empty(t, removed.take(), "after Remove has returned")
		assert.False(t, removed.reg.HasSynced())
		assert.Equal(t, b.truth, other.state())
		assert.True(t, other.reg.HasSynced())
		assert.Equal(t, []int{0, 0}, informer.Waiting(b.in), "the first handler and the other one")
	})
}

// So many objects come while a handler joins that they are told in pieces, too. One of them goes before its turn, and comes
// again before the turn of others; and some that were there go and come again when their turn is next.
func TestWhatComesWhileAHandlerJoinsInPiecesIsToldInPiecesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrake(t, numbers(6*informer.ScanChunk))
		b.step(func() { b.delete("0") })
		b.step(nil)
		late := newRecorder(t).add(b.in)
		for i := range 5 {
			b.step(func() {
				b.put("x")
				for j := range 250 {
					b.put(fmt.Sprint("new", i, ".", j))
				}
				for j := range 64 { // that many objects are read from the cache at once
					if i == 0 {
						b.recreate(fmt.Sprint(informer.ScanChunk + 1 + j))
					}
				}
			})
		}
		b.step(func() { b.delete("x") })
		b.step(func() { b.put("x") })
		b.open()
		assert.Equal(t, b.truth, late.state())
		assert.True(t, late.reg.HasSynced())
	})
}
