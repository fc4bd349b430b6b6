package simtest

import (
	"flag"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// htmlFlag is a package variable because go test reads flags before any test runs.
var htmlFlag = flag.String("simtest.html", "", "write the failures to an HTML file in this directory, one for each test")

// draw writes failures to an HTML file, if the flag is set. It writes no file if there are none.
func draw(t *testing.T, failures []*Failure) {
	t.Helper()
	if *htmlFlag == "" || len(failures) == 0 {
		return
	}
	file := filepath.Join(*htmlFlag, strings.ReplaceAll(corpusName(t.Name()), "/", "_")+".html")
	var b strings.Builder
	err := writePage(&b, t.Name(), failures)
	if err == nil {
		err = os.MkdirAll(*htmlFlag, 0o777)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(b.String()), 0o666)
	}
	if err != nil {
		t.Errorf("simtest: write the page of -simtest.html: %v", err)
		return
	}
	t.Logf("simtest: the page is %s", file)
}

// Sizes of the lanes, in pixels.
const (
	laneWidth = 20
	laneStart = 12
	dotHeight = 15
)

// writePage draws failures as an HTML file that needs nothing else: no script, no font, no network. Each failure is a table of what
// happened, from the top to the bottom, next to an inline SVG with one lane for each system. Every text is escaped. The page follows the
// reader's choice of light and dark colors, and fits on a phone.
func writePage(w io.Writer, title string, failures []*Failure) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"x":     func(lane int) int { return laneStart + laneWidth*lane },
		"width": func(lanes []string) int { return laneStart + laneWidth*len(lanes) },
		"hue":   func(lane int) int { return lane % 6 },
		"y":     func() int { return dotHeight },
		"cross": func(lane int) string {
			x, y := laneStart+laneWidth*lane, dotHeight
			return fmt.Sprintf("M%d %dl10 10m0 -10l-10 10", x-5, y-5)
		},
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	page := struct {
		Title    string
		Failures []drawnFailure
	}{Title: title}
	for _, f := range failures {
		page.Failures = append(page.Failures, f.drawn())
	}
	return t.Execute(w, page)
}

// drawnFailure is a failure on a page.
type drawnFailure struct {
	*Failure
	Lanes []string
	Lines []drawnLine
}

// drawnLine is one event on a page.
type drawnLine struct {
	At        string // the time; empty if it is the same as on the line above
	Lane      int    // an index of Lanes, or -1
	Who, Text string
	Mark      string // how the line is drawn
}

// drawn returns the failure as it is drawn.
func (f *Failure) drawn() drawnFailure {
	d := drawnFailure{Failure: f}
	last := ""
	for _, l := range f.lines {
		at := l.at.Round(time.Millisecond).String()
		if at == last {
			at = ""
		} else {
			last = at
		}
		out := drawnLine{At: at, Lane: -1, Who: l.actor, Text: l.text, Mark: markOf(l)}
		if !l.state {
			lane := laneOf(l.actor)
			if out.Lane = slices.Index(d.Lanes, lane); out.Lane < 0 {
				out.Lane = len(d.Lanes)
				d.Lanes = append(d.Lanes, lane)
			}
		}
		d.Lines = append(d.Lines, out)
	}
	return d
}

// laneOf returns the system of a process: its name without the number.
func laneOf(actor string) string {
	if i := strings.LastIndexByte(actor, '.'); i >= 0 {
		if _, err := strconv.Atoi(actor[i+1:]); err == nil {
			return actor[:i]
		}
	}
	return actor
}

// markOf returns how a page draws a line: it is a class of the template.
func markOf(l line) string {
	switch {
	case l.state && strings.HasPrefix(l.text, "-"):
		return "missing"
	case l.state && strings.HasPrefix(l.text, "+"):
		return "extra"
	case l.state && strings.HasPrefix(l.text, "~"):
		return "differs"
	case l.wrote:
		return "write"
	case strings.HasPrefix(l.text, "STEP"):
		return "step"
	case strings.HasPrefix(l.text, "CRASH"):
		return "crash"
	case strings.HasPrefix(l.text, "FAULT"):
		return "fault"
	case strings.HasPrefix(l.text, "DOUBT"):
		return "doubt"
	default:
		return "plain"
	}
}
