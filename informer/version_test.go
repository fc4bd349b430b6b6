package informer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestVersionNeverDecreases(t *testing.T) {
	in := must(informer.New(newSource(), nameOf, informer.Config{}))
	for _, v := range []informer.Version{5, 3, 5, 0} {
		informer.Reach(in, v)
		assert.Equal(t, informer.Version(5), in.Version())
	}
}

// past is a source that remembers every state of each key, and an informer of it in which some keys cannot be applied.
type past struct {
	rnd    *rand.Rand
	src    *informertest.Source[string, site]
	in     *informer.Informer[string, site]
	broken knob[string]        // the names that have no index
	states map[string][]moment // from the last one that the cache had to hold, when it was checked
	life   int
	seen   informer.Version
}

// moment says that an object had a state from then on; the revision is 0 if it was not there.
type moment struct {
	at  informer.Version
	rev int
}

func newPast(seed uint64) *past {
	p := &past{rnd: rand.New(rand.NewPCG(seed, 1)), src: newSource(), states: make(map[string][]moment)}
	p.in = must(informer.New(p.src, nameOf, informer.Config{OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second}}))
	cache.AddIndex(p.in.Indexer(), func(s site) []int {
		if strings.Contains(p.broken.get(), s.Name) {
			panic("no such index")
		}
		return nil
	})
	return p
}

func (p *past) change() {
	name := string("abc"[p.rnd.IntN(3)])
	if p.states[name] == nil {
		p.states[name] = []moment{{}}
	}
	if p.rnd.IntN(3) > 0 {
		rev := int(p.src.Version()) + 1
		p.states[name] = append(p.states[name], moment{p.src.Put(site{Name: name, Life: p.life, Rev: rev}), rev})
	} else if before := p.src.Version(); p.src.Delete(name) > before {
		p.states[name] = append(p.states[name], moment{p.src.Version(), 0})
		p.life++
	}
}

func (p *past) act() {
	switch p.rnd.IntN(10) {
	case 0:
		p.broken.set([]string{"", "a", "ab", "c"}[p.rnd.IntN(4)])
	case 1: // only a list shows the changes in the meantime
		p.src.Fail(errOutage)
		p.change()
		p.change()
		p.src.Compact()
		p.src.Fail(nil)
	case 2:
		p.src.Break(nil)
	case 3, 4:
		time.Sleep(time.Duration(p.rnd.IntN(3000)) * time.Millisecond)
	default:
		p.change()
	}
}

// check returns what is wrong: for each key the cache must hold the last state up to the version, or a later one.
func (p *past) check() string {
	synctest.Wait()
	v := p.in.Version()
	if v < p.seen {
		return fmt.Sprintf("the version is %d after %d", v, p.seen)
	}
	p.seen = v
	for name, states := range p.states {
		for len(states) > 1 && states[1].at <= v {
			states = states[1:]
		}
		p.states[name] = states
		s, _ := p.in.Get(name)
		if !slices.ContainsFunc(states, func(m moment) bool { return m.rev == s.Rev }) {
			return fmt.Sprintf("at version %d the cache holds %v, and of %s there were %v", v, s, name, states)
		}
	}
	return ""
}

func TestVersionIsCorrectDespiteFailedApplies(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			p := newPast(seed)
			r := newRecorder(t)
			r.gaps = true
			r.add(p.in)
			sitetest.Start(t, p.in)
			for range 100 {
				p.act()
				require.Empty(t, p.check(), "seed %d", seed)
			}
			p.broken.set("")
			time.Sleep(time.Hour)
			require.Empty(t, p.check(), "seed %d", seed)
			assert.Equal(t, p.src.Version(), p.in.Version())
			assert.Equal(t, contents(p.in), r.state())
			for name, states := range p.states {
				s, _ := p.in.Get(name)
				assert.Equal(t, states[len(states)-1].rev, s.Rev, "%s, seed %d", name, seed)
			}
		})
	}
}
