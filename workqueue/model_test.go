package workqueue_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// model is the queue as its contract has it, written for clarity alone.
type model struct {
	line       []string
	processing map[string]bool
	dirty      map[string]bool
	due        map[string]wakeUp
	backoff    map[string]wakeUp
	failed     map[string]bool
	shutdown   bool
	calls      int
}

type wakeUp struct {
	at  time.Time
	set int // the number of the call that set it: of equal times the first set comes first
}

func (w wakeUp) before(v wakeUp) bool { return w.at.Before(v.at) || w.at.Equal(v.at) && w.set < v.set }

func newModel() *model {
	return &model{
		processing: map[string]bool{}, dirty: map[string]bool{}, due: map[string]wakeUp{}, backoff: map[string]wakeUp{},
		failed: map[string]bool{},
	}
}

func (m *model) add(k string) {
	if m.shutdown {
		return
	}
	m.ready(k)
}

func (m *model) ready(k string) {
	if m.processing[k] {
		m.dirty[k] = true
	} else if !slices.Contains(m.line, k) {
		m.line = append(m.line, k)
	}
	delete(m.backoff, k)
}

func (m *model) addAfter(k string, d time.Duration) {
	if d <= 0 {
		m.add(k)
		return
	}
	m.schedule(m.due, k, d)
}

// schedule sets a deadline of k, unless there is an earlier one of its kind.
func (m *model) schedule(deadlines map[string]wakeUp, k string, d time.Duration) {
	t := time.Now().Add(d)
	if old, ok := deadlines[k]; m.shutdown || ok && !t.Before(old.at) {
		return
	}
	m.calls++
	deadlines[k] = wakeUp{t, m.calls}
}

func (m *model) fail(k string, d time.Duration) {
	if m.shutdown {
		return
	}
	m.failed[k] = true
	switch {
	case m.dirty[k] || slices.Contains(m.line, k):
	case d <= 0:
		m.add(k)
	default:
		m.schedule(m.backoff, k, d)
	}
}

func (m *model) forget(k string) {
	delete(m.failed, k)
	delete(m.backoff, k)
}

func (m *model) get() (string, bool) {
	if len(m.line) == 0 {
		return "", false
	}
	k := m.line[0]
	m.line = m.line[1:]
	m.processing[k] = true
	return k, true
}

func (m *model) done(k string) {
	if !m.processing[k] {
		return
	}
	delete(m.processing, k)
	if m.dirty[k] {
		delete(m.dirty, k)
		m.line = append(m.line, k)
	}
}

// tick makes ready what is due.
func (m *model) tick() {
	for {
		first, at := "", wakeUp{}
		for _, deadlines := range []map[string]wakeUp{m.due, m.backoff} {
			for k, t := range deadlines {
				if !t.at.After(time.Now()) && (first == "" || t.before(at)) {
					first, at = k, t
				}
			}
		}
		if first == "" {
			return
		}
		if m.due[first] == at {
			delete(m.due, first)
		}
		m.ready(first)
	}
}

func (m *model) scheduled(k string) bool {
	_, due := m.due[k]
	_, backoff := m.backoff[k]
	return due || backoff
}

func (m *model) cancel(k string) bool {
	cancelled := m.scheduled(k) || m.dirty[k] || slices.Contains(m.line, k)
	delete(m.due, k)
	delete(m.backoff, k)
	delete(m.dirty, k)
	m.line = slices.DeleteFunc(m.line, func(l string) bool { return l == k })
	return cancelled
}

func (m *model) shutDown() {
	m.shutdown = true
	clear(m.due)
	clear(m.backoff)
}

func (m *model) stats() workqueue.Stats {
	s := workqueue.Stats{Ready: len(m.line), InProcess: len(m.processing), Dirty: len(m.dirty), Delayed: len(m.due)}
	for k := range m.backoff {
		if _, ok := m.due[k]; !ok {
			s.Delayed++
		}
	}
	for k := range m.failed {
		if !m.scheduled(k) && !m.processing[k] && !slices.Contains(m.line, k) {
			s.Remembered++
		}
	}
	return s
}

// pair is a queue and its model, which take the same steps.
type pair struct {
	q *workqueue.Queue[string]
	m *model
}

// limiterOf gives every key the same backoff.
type limiterOf time.Duration

func (l limiterOf) When(string) time.Duration { return time.Duration(l) }
func (limiterOf) Forget(string)               {}
func (limiterOf) NumRequeues(string) int      { return 0 }

func newPair() pair {
	return pair{must(workqueue.New(workqueue.Config[string]{RateLimiter: limiterOf(30 * time.Millisecond), Logger: discard})), newModel()}
}

// step does one step on both and compares what can be seen.
func (p pair) step(op byte) error {
	return errors.Join(p.do(op), p.check())
}

// do does one step on both.
func (p pair) do(op byte) error {
	k := string('a' + rune(op>>4&1))
	switch op & 15 {
	case 0:
		p.q.Add(k)
		p.m.add(k)
	case 1:
		got, ok := p.q.TryGet()
		want, wantOK := p.m.get()
		if got != want || ok != wantOK {
			return fmt.Errorf("Get: %q %v, want %q %v", got, ok, want, wantOK)
		}
	case 2:
		p.q.Done(k)
		p.m.done(k)
	case 3:
		d := time.Duration(10+7*(op>>5)) * time.Millisecond
		p.q.AddAfter(k, d)
		p.m.addAfter(k, d)
	case 4:
		p.q.AddRateLimited(k)
		p.m.fail(k, 30*time.Millisecond)
	case 5:
		time.Sleep(time.Duration(1+5*(op>>5)) * time.Millisecond)
		synctest.Wait()
		p.m.tick()
	case 7:
		if got, want := p.q.Cancel(k), p.m.cancel(k); got != want {
			return fmt.Errorf("Cancel: %v, want %v", got, want)
		}
	case 6:
		p.q.ShutDown()
		p.m.shutDown()
	case 8:
		d := time.Duration(7*(op>>5)) * time.Millisecond
		p.q.AddWith(k, workqueue.AddOptions{RateLimited: true, After: cmp.Or(d, -1)})
		p.m.fail(k, d)
	case 9:
		p.q.Forget(k)
		p.m.forget(k)
	}
	return nil
}

// check compares what can be seen.
func (p pair) check() error {
	if got, want := p.q.Stats(), p.m.stats(); got != want {
		return fmt.Errorf("stats %+v, want %+v", got, want)
	}
	return p.q.CheckInvariants()
}

// drain works off what is left: a key that is lost is one that never comes.
func (p pair) drain() error {
	for range 10 {
		for _, k := range []string{"a", "b"} {
			if err := p.step(2 | (k[0]-'a')<<4); err != nil {
				return err
			}
		}
		if len(p.m.line) == 0 {
			break
		}
		if err := p.step(1); err != nil {
			return err
		}
	}
	if s := p.q.Stats(); s.Ready+s.InProcess+s.Dirty != 0 {
		return fmt.Errorf("not drained: %+v", s)
	}
	return nil
}

// legal reports whether op does anything worth a test in the present state: no Get from an empty queue, no Done of what is
// not in process, no Cancel of nothing, nothing but Get and Done after a shutdown.
func (m *model) legal(op byte) bool {
	k := string('a' + rune(op>>4&1))
	switch op & 15 {
	case 1:
		return len(m.line) > 0
	case 2:
		return m.processing[k]
	case 7:
		return m.dirty[k] || slices.Contains(m.line, k)
	default:
		return !m.shutdown
	}
}

// All legal sequences of calls up to a length, over two keys, each with a drain as its last call.
func TestAllShortSequencesOfCallsAgreeWithTheModel(t *testing.T) {
	for _, c := range []struct {
		ops   []byte
		depth int
	}{
		{[]byte{0, 0 | 16, 1, 2, 2 | 16}, 8},
		{[]byte{0, 0 | 16, 1, 2, 2 | 16, 6, 7, 7 | 16}, 6},
	} {
		n := 0
		var walk func(prefix []byte, depth int)
		walk = func(prefix []byte, depth int) {
			p := newPair()
			for i, op := range prefix {
				require.NoError(t, p.do(op), "%v at %d", prefix, i)
			}
			require.NoError(t, p.check(), "%v", prefix)
			legal := slices.DeleteFunc(slices.Clone(c.ops), func(op byte) bool { return !p.m.legal(op) })
			require.NoError(t, p.drain(), "%v, then drained", prefix)
			n++
			if depth == 0 {
				return
			}
			for _, op := range legal {
				walk(append(prefix[:len(prefix):len(prefix)], op), depth-1)
			}
		}
		depth := c.depth
		if raceEnabled {
			depth -= 2
		}
		walk(nil, depth)
		t.Logf("%d sequences up to length %d", n, depth)
	}
}

func TestRandomSequencesWithDelaysAgreeWithTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			ops := make([]byte, 60)
			for i := range ops {
				ops[i] = byte(r.Uint32())
				if ops[i]&15 == 6 && i < 50 { // a shutdown only near the end
					ops[i]--
				}
			}
			runOps(t, ops)
		}
	})
}

func FuzzQueueAgreesWithTheModel(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 0x25, 1, 4, 0, 1, 0x45, 6, 2})
	f.Add([]byte{0x48, 0x28, 0, 1, 8, 2, 1, 9, 2, 0x68, 0xe5})
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { runOps(t, ops[:min(len(ops), 200)]) })
	})
}

func runOps(t *testing.T, ops []byte) {
	p := newPair()
	for i, op := range ops {
		require.NoError(t, p.step(op), "%v at %d", ops, i)
	}
	require.NoError(t, p.drain(), "%v, then drained", ops)
	p.q.ShutDown()
}
