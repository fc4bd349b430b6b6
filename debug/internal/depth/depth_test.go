package depth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/debug/internal/depth"
)

func TestSamplesKeepFiveMinutesOfQueuesThatExist(t *testing.T) {
	var s depth.Samples
	began := time.Unix(1000, 0)
	for i := range 200 {
		at := began.Add(time.Duration(i) * depth.Period)
		assert.True(t, s.Due(at))
		assert.False(t, s.Due(at.Add(depth.Period/2)))
		round := map[string]depth.Point{"sites": {At: at, Ready: i}}
		if i == 0 {
			round["gone"] = depth.Point{At: at}
		}
		s.Add(round)
	}
	of := s.Of("sites")
	assert.Len(t, of, 150)
	assert.Equal(t, 50, of[0].Ready)
	assert.Equal(t, 199, of[149].Ready)
	assert.Empty(t, s.Of("gone"))
}

func TestLineHasGapWhereSamplesAreMissing(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(ago time.Duration, ready int) depth.Point { return depth.Point{At: now.Add(-ago), Ready: ready} }
	l := depth.Draw([]depth.Point{
		at(6*time.Minute, 1000), at(time.Minute, 10), at(58*time.Second, 20), at(10*time.Second, 0), at(8*time.Second, 0),
	}, now)
	assert.Equal(t, 2, strings.Count(l.Path, "M"), "two pieces: %s", l.Path)
	assert.Equal(t, 2, strings.Count(l.Area, "Z"))
	assert.Equal(t, 2, strings.Count(l.Path, "L"), "the oldest point is not drawn")
	assert.Equal(t, depth.Line{Max: 1}, depth.Draw(nil, now))
}
