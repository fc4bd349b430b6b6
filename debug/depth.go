package debug

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	// samplePeriod is the time between two rounds of samples.
	samplePeriod = 2 * time.Second

	// keptSamples is the number of samples of a queue that are kept: five minutes.
	keptSamples = 150
)

// point is one sample of a queue.
type point struct {
	At       time.Time `json:"at"`
	Ready    int       `json:"ready"`
	InFlight int       `json:"inFlight"`
	Done     uint64    `json:"done"` // reconciles that have ended so far
}

// samples are the depths of queues over the last five minutes. It keeps none of a queue that the last round does not have. The zero value is
// ready for use. It is safe for concurrent use.
type samples struct {
	mu sync.Mutex
	// mu guards the following.
	last time.Time          // of the last round
	of   map[string][]point // by queue, the latest last
}

// due reports whether a round should be taken at now. It returns true once per samplePeriod.
func (s *samples) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := now.Sub(s.last) >= samplePeriod*9/10 // a ticker may fire late once, and early the next time
	if due {
		s.last = now
	}
	return due
}

// add adds a round, which has a point of each queue.
func (s *samples) add(round map[string]point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string][]point)
	}
	for name, p := range round {
		of := append(s.of[name], p)
		s.of[name] = of[max(0, len(of)-keptSamples):]
	}
	for name := range s.of {
		if _, ok := round[name]; !ok {
			delete(s.of, name) // the part was removed
		}
	}
}

// get returns the samples of a queue, the oldest first. It never returns nil, which would be null in JSON.
func (s *samples) get(name string) []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]point{}, s.of[name]...)
}

// chart is a drawing of a queue over the last five minutes, and the words around it.
type chart struct {
	Title string
	line
}

// charts draws the depth of a queue, and its throughput.
func charts(points []point, now time.Time) []chart {
	return []chart{{"Ready keys", draw(points, now)}, {"Done per minute", draw(rates(points), now)}}
}

// rates returns points whose Ready is the throughput, in keys per minute, since the point before. A point after a gap has none.
func rates(points []point) (of []point) {
	for i := 1; i < len(points); i++ {
		p, before := points[i], points[i-1]
		if d := p.At.Sub(before.At); d > 0 && d <= 3*samplePeriod && p.Done >= before.Done {
			of = append(of, point{At: p.At, Ready: int(math.Round(float64(p.Done-before.Done) / d.Minutes()))})
		}
	}
	return of
}

// line is a drawing of a number over time.
type line struct {
	Path, Area string
	Max        int
}

// The size of the drawing, in its own units.
const (
	lineWidth  = 300.0
	lineHeight = 48.0
)

// draw draws points over the last five minutes. Missing samples leave a gap.
func draw(points []point, now time.Time) line {
	const window = keptSamples * samplePeriod
	for len(points) > 0 && now.Sub(points[0].At) > window {
		points = points[1:]
	}
	drawn := line{Max: 1}
	for _, p := range points {
		drawn.Max = max(drawn.Max, p.Ready)
	}
	var path, area strings.Builder
	open := false
	finish := func() {
		if open {
			fmt.Fprintf(&area, "V%.0fZ", lineHeight)
		}
		open = false
	}
	for i, p := range points {
		x := lineWidth * (1 - float64(now.Sub(p.At))/float64(window))
		y := lineHeight - 2 - (lineHeight-4)*float64(p.Ready)/float64(drawn.Max)
		if i > 0 && p.At.Sub(points[i-1].At) > 3*samplePeriod {
			finish()
		}
		if open {
			fmt.Fprintf(&path, "L%.1f %.1f", x, y)
			fmt.Fprintf(&area, "L%.1f %.1f", x, y)
		} else {
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
			fmt.Fprintf(&area, "M%.1f %.0fV%.1f", x, lineHeight, y)
			open = true
		}
	}
	finish()
	drawn.Path, drawn.Area = path.String(), area.String()
	return drawn
}
