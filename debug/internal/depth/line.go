package depth

import (
	"fmt"
	"strings"
	"time"
)

// Line is a drawing of the depth of a queue.
type Line struct {
	Path, Area string
	Max        int
}

// The size of the drawing, in its own units.
const (
	lineWidth  = 300.0
	lineHeight = 48.0
)

// Draw draws points over the last minutes. Missing samples leave a gap.
func Draw(points []Point, now time.Time) Line {
	const window = kept * Period
	for len(points) > 0 && now.Sub(points[0].At) > window {
		points = points[1:]
	}
	drawn := Line{Max: 1}
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
		if i > 0 && p.At.Sub(points[i-1].At) > 3*Period {
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
