package page

import (
	"fmt"
	"html/template"
	"io"
)

// Page is a file.
type Page struct {
	Title    string
	Failures []Failure
}

// Failure is a plan that failed.
type Failure struct {
	Problem  string // in a sentence
	Severity string // "bug" or "advisory"
	Rule     string
	Means    string // what breaking the rule means
	Plan     string
	More     int // other plans that fail in the same way
	Lanes    []string
	Lines    []Line
}

// Line is one event.
type Line struct {
	At   string // the time; empty if it is the same as on the line above
	Lane int    // an index of Lanes, or -1
	Who  string
	Text string
	Mark Mark
}

// Mark is how a line is drawn.
type Mark string

// The marks.
const (
	Plain   Mark = "plain"
	Step    Mark = "step"    // of the user
	Write   Mark = "write"   // a commit or an effect
	Fault   Mark = "fault"   // something goes wrong
	Crash   Mark = "crash"   // a process ends
	Doubt   Mark = "doubt"   // the action may be wrong
	Missing Mark = "missing" // an object is missing
	Extra   Mark = "extra"   // an object exists and should not
	Differs Mark = "differs" // an object is not as it should be
)

// Sizes of the lanes, in pixels.
const (
	laneWidth = 20
	laneStart = 12
	dotHeight = 15
)

// Write writes the page. It returns the error of w.
func (p Page) Write(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"x":     func(lane int) int { return laneStart + laneWidth*lane },
		"width": func(lanes []string) int { return laneStart + laneWidth*len(lanes) },
		"hue":   func(lane int) int { return lane % 6 },
		"y":     func() int { return dotHeight },
		"cross": func(lane int) string {
			x, y := laneStart+laneWidth*lane, dotHeight
			return fmt.Sprintf("M%d %dl10 10m0 -10l-10 10", x-5, y-5)
		},
	}).Parse(text)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
