package informer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

func TestEachHandlerHasItsOwnResyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Minute}))
		resyncs := make([]int, 3)
		for i, period := range []time.Duration{0, 20 * time.Second, -1} {
			_, err := in.AddHandler(informer.Handler[string, site]{
				ResyncPeriod: period, OnUpdate: func(_, _ site) { resyncs[i]++ },
			})
			require.NoError(t, err)
		}
		start(t, in)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []int{2, 6, 0}, resyncs)
	})
}

func TestResyncRedeliversEveryObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "b", Rev: 1})
		src.Put(site{Name: "a", Rev: 2})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Hour}))
		r := newRecorder(t).add(in)
		start(t, in)
		assert.Equal(t, []string{"add b.1 initial=true", "add a.2 initial=true"}, r.take())
		v, last := in.Version(), in.LastReceived()

		time.Sleep(time.Hour - 1)
		assert.Empty(t, r.take())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"update b.1 1", "update a.2 2"}, r.take())
		time.Sleep(time.Hour)
		assert.Len(t, r.take(), 2)
		assert.Equal(t, v, in.Version())
		assert.Equal(t, last, in.LastReceived())
	})
}

func TestResyncNeverDeliversOldStateAfterNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Hour}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		start(t, in) // the handler is in OnAdd
		src.Put(site{Name: "a", Rev: 2})
		time.Sleep(time.Hour)
		src.Put(site{Name: "b", Rev: 3})
		time.Sleep(time.Hour)
		src.Delete("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		close(r.gate)
		assert.Equal(t, []string{"add a.1 initial=true", "delete a.2", "add b.3 initial=false"}, r.take())
	})
}

func TestResyncIsMarkedUnlessMergedWithChange(t *testing.T) {
	for _, every := range []bool{false, true} {
		t.Run(fmt.Sprint("every event ", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				for _, name := range []string{"a", "b", "c"} {
					src.Put(site{Name: name})
				}
				in := must(informer.New(src, nameOf, informer.Config{}))
				var calls []string
				gate := make(chan struct{})
				_, err := in.AddHandler(informer.Handler[string, site]{
					ResyncPeriod: time.Hour, EveryEvent: every,
					OnAdd: func(s site, _ bool) { calls = append(calls, "add "+s.Name) },
					OnUpdate: func(old, new site) {
						calls = append(calls, fmt.Sprint("update ", new.Name, " ", old.Rev, new.Rev))
						<-gate
					},
					OnResync: func(s site) { calls = append(calls, fmt.Sprint("resync ", s.Name, " ", s.Rev)) },
				})
				require.NoError(t, err)
				start(t, in)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.ElementsMatch(t, []string{"add a", "add b", "add c", "resync a 0", "resync b 0", "resync c 0"}, calls)

				calls = nil
				src.Put(site{Name: "c", Rev: 1}) // keeps the handler busy
				synctest.Wait()
				src.Put(site{Name: "a", Rev: 2}) // before the resync
				time.Sleep(time.Hour)
				synctest.Wait()
				src.Put(site{Name: "b", Rev: 3}) // after it
				synctest.Wait()
				close(gate)
				synctest.Wait()
				if every {
					assert.Equal(t, []string{"update c 0 1", "update a 0 2"}, calls[:2])
					assert.ElementsMatch(t, []string{"resync a 2", "resync b 0", "resync c 1"}, calls[2:5])
					assert.Equal(t, []string{"update b 0 3"}, calls[5:])
				} else {
					assert.Equal(t, "update c 0 1", calls[0])
					assert.ElementsMatch(t, []string{"update a 0 2", "update b 0 3", "resync c 1"}, calls[1:])
				}
			})
		})
	}
}

// A resync comes in pieces. Between them, an index blocks Run, and objects change before, at, and after their turn.
func TestResyncInPiecesDeliversCurrentObjects(t *testing.T) {
	for _, c := range []struct{ every, ends bool }{{}, {every: true}, {ends: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newChronicle(append(numbers(3*informer.PieceSize), "later"), informer.Config{ResyncPeriod: time.Hour})
			r := newRecorder(t)
			h := r.handler()
			again := make(map[string]bool)
			update := h.OnUpdate
			h.OnUpdate = func(old, now site) {
				if old == now {
					assert.False(t, again[now.Name], "%v is delivered again", now)
					again[now.Name] = true
				}
				update(old, now)
			}
			h.EveryEvent = c.every
			_, err := s.in.AddHandler(h)
			require.NoError(t, err)
			stop := start(t, s.in)
			r.take()
			release := make(chan struct{})
			cache.AddIndex(s.in.Indexer(), func(o site) []int {
				if o.Name == "brake" {
					<-release
				}
				return nil
			})
			step := func(changes func()) { // lets Run stop in its next step, which has applied the changes
				changes()
				s.put("brake")
				synctest.Wait()
				release <- struct{}{}
				synctest.Wait()
			}
			s.put("brake")
			time.Sleep(time.Hour)
			synctest.Wait()
			for len(again) == 0 { // Run picks a change or a resync first, by chance
				step(func() {})
			}
			require.Len(t, again, informer.PieceSize, "the first piece")
			if c.ends {
				go stop()
				synctest.Wait()
				close(release)
				synctest.Wait()
				assert.LessOrEqual(t, len(again), 2*informer.PieceSize)
				return
			}
			last := fmt.Sprint(3*informer.PieceSize - 1)
			step(func() {
				s.put("0")
				s.put("1")
				s.delete("1")
				s.put("later")
				s.delete(last)
				s.put("new")
			})
			step(func() { s.recreate("later"); s.put(last) })
			close(release)
			assert.Equal(t, s.truth, r.state())
			assert.Equal(t, s.truth, contents(s.in))
			for name := range s.truth {
				switch name {
				case "brake", "new", last: // they have come since
				default:
					assert.True(t, again[name] || !c.every && name == "later", name)
				}
			}
		})
	}
}

// The resync covers three objects, one at a time.
func TestRunningResyncIsNotRestarted(t *testing.T) {
	w := newSchedule(t)
	calls := make(map[string]int)
	_, err := w.in.AddHandler(informer.Handler[string, site]{OnUpdate: func(_, s site) { calls[s.Name]++ }, EveryEvent: true})
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		w.src.put(name)
	}
	w.reflect()
	deliver := func() map[string]int {
		for !w.driver.Idle() {
			w.driver.Apply()
		}
		for w.driver.Deliver(0) {
		}
		return calls
	}
	require.Empty(t, deliver())
	w.driver.Resync()
	w.driver.Resync()
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, deliver())
	w.driver.Resync()
	require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, deliver(), "the one before has ended")
}
