package manager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
)

// checkpoint is a context that holds the goroutines of a manager: each asks its context for a leadership just before it starts a part. So a
// test decides when each part starts, and sees which parts could start in any order.
type checkpoint struct {
	context.Context
	most int // goroutines that may be held at a time

	mu sync.Mutex
	// mu guards the following.
	held []chan struct{}
	open bool // holds no more
}

func (c *checkpoint) Value(key any) any {
	if fmt.Sprintf("%T", key) == "leaderelect.leadershipKey" {
		c.mu.Lock()
		pass := make(chan struct{})
		if c.open {
			close(pass)
		} else {
			c.held = append(c.held, pass)
		}
		c.mu.Unlock()
		<-pass
	}
	return c.Context.Value(key)
}

// step waits until nothing moves, and lets the goroutines pass that are held. It returns false if there are none. Among several, chance
// decides the order.
func (c *checkpoint) step(t *testing.T) bool {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.LessOrEqual(t, len(c.held), c.most, "goroutines that start parts of several stages concurrently")
	held := c.held
	c.held = nil
	for _, pass := range held {
		close(pass)
	}
	return len(held) > 0
}

func (c *checkpoint) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
	for _, pass := range c.held {
		close(pass)
	}
	c.held = nil
}

// blocking returns a part that notes its start and blocks.
func blocking(name string, events *looptest.Log[string]) manager.Part {
	return manager.Func(name, func(ctx context.Context) error {
		events.Add(name + " starts")
		<-ctx.Done()
		return nil
	})
}

// startsOf returns the parts that start.
func startsOf(events []string) (names []string) {
	for _, e := range events {
		if name, ok := strings.CutSuffix(e, " starts"); ok {
			names = append(names, name)
		}
	}
	return names
}

func TestPartsOfEarlierStagesStartFirst(t *testing.T) {
	for name, cfg := range map[string]manager.Config{
		"alone":         {Logger: quiet},
		"with election": {Logger: quiet, Election: election(memlease.New())},
		"with shards":   {Logger: quiet, Shards: &shard.Config{Lease: leaderelect.Config{Store: memlease.New(), Key: "k", Logger: quiet}, Slots: 1}},
	} {
		bubble(t, name, func(t *testing.T) {
			events := &looptest.Log[string]{}
			part := func(stage manager.Stage, name string) manager.Part {
				if stage == manager.Leading && cfg.Shards != nil {
					return shareable{newFakePart(name, events)}
				}
				return manager.At(stage, blocking(name, events))
			}
			m := must(manager.New(cfg, part(manager.Leading, "leading"), part(manager.Always, "always"), part(manager.Outer, "outer")))
			ctx := &checkpoint{Context: t.Context(), most: 1}
			if cfg.Shards != nil {
				ctx.most = 2 // the slots start with the parts that share keys
			}
			r := looptest.StartIn(ctx, t, m.Run)
			steps := 0
			for range 2 {
				for ctx.step(t) {
					steps++
				}
				time.Sleep(time.Second) // an election may take some time
			}
			assert.GreaterOrEqual(t, steps, 3)
			assert.Equal(t, []string{"outer", "always", "leading"}, startsOf(events.Take()))

			// The same holds for parts that are added together later.
			require.NoError(t, m.Add(part(manager.Leading, "leading 2"), part(manager.Always, "always 2"), part(manager.Outer, "outer 2")))
			for ctx.step(t) {
			}
			assert.Equal(t, []string{"outer 2", "always 2", "leading 2"}, startsOf(events.Take()))
			m.CheckInvariants(t)
			ctx.release()
			require.NoError(t, r.Stop())
			m.CheckInvariants(t)
		})
	}
}
