package main

import (
	"fmt"
	"html"
	"strings"
)

// canvas collects the elements of a picture.
type canvas struct {
	width, height int
	title         string
	body          strings.Builder
}

func newCanvas(width, height int, title string) *canvas {
	return &canvas{width: width, height: height, title: title}
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.body, format+"\n", args...) }

// text writes lines, centered on x, the first one at y.
func (c *canvas) text(x, y int, class string, lines ...string) {
	for i, line := range lines {
		c.add(`<text x="%d" y="%d" class="%s">%s</text>`, x, y+i*17, class, html.EscapeString(line))
	}
}

// box draws a box with a title and lines below it.
func (c *canvas) box(x, y, w, h int, class, title string, lines ...string) {
	c.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="8" class="box %s"/>`, x, y, w, h, class)
	top := y + h/2 + 5 - len(lines)*17/2
	c.text(x+w/2, top, "title", title)
	c.text(x+w/2, top+17, "small", lines...)
}

// arrow draws a line through points, x and y in turn, with a head at its end.
func (c *canvas) arrow(class string, points ...int) {
	var path []string
	for i := 0; i+1 < len(points); i += 2 {
		path = append(path, fmt.Sprintf("%d,%d", points[i], points[i+1]))
	}
	c.add(`<polyline points="%s" class="arrow %s"/>`, strings.Join(path, " "), class)
}

// bar draws a time span on a lane, with a label in it.
func (c *canvas) bar(x, y, w int, class, label string) {
	c.add(`<rect x="%d" y="%d" width="%d" height="26" rx="5" class="bar %s"/>`, x, y, w, class)
	c.text(x+w/2, y+17, "label", label)
}

// mark draws a vertical line at a moment, with a label above it.
func (c *canvas) mark(x, from, to int, label string) {
	c.add(`<line x1="%d" y1="%d" x2="%[1]d" y2="%[3]d" class="mark"/>`, x, from, to)
	c.text(x, from-6, "small", label)
}

const style = `
text { font: 14px system-ui, sans-serif; text-anchor: middle; fill: #1f2328 }
.title { font-weight: 600 }
.small, .label { font-size: 12.5px }
.small { fill: #59636e }
.left { text-anchor: start }
.box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.4 }
.user { fill: #ddf4ff; stroke: #0969da }
.arrow { fill: none; stroke: #59636e; stroke-width: 1.6; marker-end: url(#head) }
.retry { stroke: #bc4c00; stroke-dasharray: 5 4 }
#head path { fill: #59636e }
.bar { fill: #d0d7de }
.good { fill: #aceebb }
.bad { fill: #ffcecb }
.wait { fill: #fae17d }
.lane { stroke: #d0d7de; stroke-width: 1 }
.mark { stroke: #0969da; stroke-width: 1.2; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.box { fill: #161b22; stroke: #656c76 }
.user { fill: #0c2d6b; stroke: #4493f8 }
.arrow { stroke: #9198a1 }
.retry { stroke: #db6d28 }
#head path { fill: #9198a1 }
.bar { fill: #3d444d }
.good { fill: #196c2e }
.bad { fill: #8e1519 }
.wait { fill: #7a5b00 }
.lane { stroke: #3d444d }
.mark { stroke: #4493f8 }
}
`

// String returns the picture as an SVG file.
func (c *canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">
<title>%[3]s</title>
<style>%[4]s</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z"/></marker></defs>
%[5]s</svg>
`, c.width, c.height, html.EscapeString(c.title), style, c.body.String())
}
