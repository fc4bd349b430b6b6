package caller_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/caller"
)

func TestAttemptReportsItsEndOnce(t *testing.T) {
	assert.Nil(t, caller.From(t.Context()))
	a := &caller.Attempt{ID: caller.ID{Controller: 1, Key: "k"}}
	assert.Same(t, a, caller.From(context.WithValue(t.Context(), caller.Key{}, a)))
	n := 0
	a.OnEnd(func() { n++; a.OnEnd(func() { n += 10 }) })
	assert.Zero(t, n)
	a.End()
	a.End()
	assert.Equal(t, 11, n)
	a.OnEnd(func() { n++ })
	assert.Equal(t, 12, n, "a late result is delivered immediately")
}
