package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// CheckInvariants tests what is written at the fields of a controller.
func (c *Controller[K]) CheckInvariants(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	assert.False(t, c.running && c.steps > 0, "running and stepping at once")
	assert.False(t, c.crew != nil && !c.running, "workers without a run")
	running := c.running
	c.mu.Unlock()

	c.later.mu.Lock()
	defer c.later.mu.Unlock()
	assert.True(t, running || !c.later.open.Load(), "keys are kept for later without a run")
	assert.Len(t, c.later.places, len(c.later.keys))
	for i, k := range c.later.keys {
		assert.Equal(t, i, c.later.places[k.key])
	}
	assert.True(t, c.later.open.Load() || len(c.later.keys) == 0)
}

// Work is what a worker does.
func (c *Controller[K]) Work(ctx context.Context) { c.work(context.Background(), ctx, &seat[K]{}) }

// AddAll is what an event with these keys adds.
func AddAll(add func(string), a, b []string) { addAll(add, a, b) }

// Exports for the black-box tests.
var (
	RunUntil    = runUntil
	WorkContext = workContext
)

// Later is the keys for the next Run.
type Later[K comparable] struct {
	l    later[K]
	Opts map[K]AddOptions // of the keys that End has returned
}

func (l *Later[K]) Begin()                           { l.l.begin() }
func (l *Later[K]) Add(key K) bool                   { return l.AddWith(key, AddOptions{}) }
func (l *Later[K]) AddWith(key K, o AddOptions) bool { return l.l.add(key, o) }

func (l *Later[K]) Len() int {
	l.l.mu.Lock()
	defer l.l.mu.Unlock()
	return len(l.l.keys)
}

func (l *Later[K]) End() (keys []K) {
	l.Opts = map[K]AddOptions{}
	for _, k := range l.l.end() {
		keys = append(keys, k.key)
		l.Opts[k.key] = k.opts
	}
	return keys
}
