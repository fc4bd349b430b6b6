package informer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

// chain is a handler that holds each call against the one before for its key. It is cheaper than a recorder.
type chain struct {
	mood  string
	calls int
	gone  atomic.Bool
	known map[string]site // used by the goroutine of the handler, and after Remove or at rest
	wrong error
}

// called notes a call, and stalls or panics as is the mood of c, when the call has been noted.
func (c *chain) called(what string, from *site, name string) (react func()) {
	c.calls++
	known, ok := c.known[name]
	switch {
	case c.gone.Load():
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
// some that panic, while a source tells of 20,000 changes of 200 objects, and of INFORMER_EVENTS in the long form. Whatever
// joins when, and however it behaves, is told of each key in one unbroken chain, and knows in the end what the cache holds.
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
		stop := sitetest.Start(t, in)
		join := func(mood string) (*chain, *informer.Registration) {
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
					c.gone.Store(true)
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
