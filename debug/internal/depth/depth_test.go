package depth_test

import (
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/debug/internal/depth"
)

func TestSamplesKeepFiveMinutesOfQueuesThatExist(t *testing.T) {
	var s depth.Samples
	began := time.Unix(1000, 0)
	for i := range 200 {
		at := began.Add(time.Duration(i) * depth.Period)
		if !s.Due(at) {
			t.Error("s.Due(at) = false, want true")
		}
		if s.Due(at.Add(depth.Period / 2)) {
			t.Error("s.Due(at.Add(depth.Period/2)) = true, want false")
		}
		round := map[string]depth.Point{"sites": {At: at, Ready: i}}
		if i == 0 {
			round["gone"] = depth.Point{At: at}
		}
		s.Add(round)
	}
	of := s.Of("sites")
	if len(of) != 150 {
		t.Errorf("len(of) = %d, want 150: %v", len(of), of)
	}
	if of[0].Ready != 50 {
		t.Errorf("of[0].Ready = %d, want 50", of[0].Ready)
	}
	if of[149].Ready != 199 {
		t.Errorf("of[149].Ready = %d, want 199", of[149].Ready)
	}
	if got := s.Of("gone"); len(got) != 0 {
		t.Errorf(`s.Of("gone") = %v, want none`, got)
	}
}

func TestLineHasGapWhereSamplesAreMissing(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(ago time.Duration, ready int) depth.Point { return depth.Point{At: now.Add(-ago), Ready: ready} }
	got := depth.Draw([]depth.Point{
		at(6*time.Minute, 1000), at(5*time.Minute, 20), at(time.Minute, 10), at(58*time.Second, 20), at(10*time.Second, 0), at(4*time.Second, 0),
	}, now)
	want := depth.Line{
		Path: "M0.0 2.0M240.0 24.0L242.0 2.0M290.0 46.0L296.0 46.0",
		Area: "M0.0 48V2.0V48ZM240.0 48V24.0L242.0 2.0V48ZM290.0 48V46.0L296.0 46.0V48Z",
		Max:  20, // the oldest point is not drawn
	}
	if got != want {
		t.Errorf("depth.Draw = %+v, want %+v", got, want)
	}
	if got, want := depth.Draw(nil, now), (depth.Line{Max: 1}); got != want {
		t.Errorf("depth.Draw(nil, now) = %+v, want %+v", got, want)
	}
}
