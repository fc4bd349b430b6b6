package simtest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
	"github.com/setpoint-go/setpoint/simtest/internal/page"
	"github.com/setpoint-go/setpoint/simtest/internal/timeline"
)

// htmlFlag is a package variable because go test reads flags before any test runs.
var htmlFlag = flag.String("simtest.html", "", "write the failures to an HTML file in this directory, one for each test")

// draw writes failures to an HTML file, if the flag is set. It writes no file if there are none.
func draw(t *testing.T, failures []*Failure) {
	t.Helper()
	if *htmlFlag == "" || len(failures) == 0 {
		return
	}
	p := page.Page{Title: t.Name()}
	for _, f := range failures {
		p.Failures = append(p.Failures, f.page())
	}
	name := strings.ReplaceAll(corpus.Name(t.Name()), "/", "_") + ".html"
	file := filepath.Join(*htmlFlag, name)
	var b strings.Builder
	err := p.Write(&b)
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

// page returns the failure as part of a page.
func (f *Failure) page() page.Failure {
	p := page.Failure{
		Problem: f.Problem, Severity: string(f.Severity), Rule: string(f.Rule), Means: f.Rule.Means(), Plan: f.Plan.String(), More: len(f.More),
	}
	last := ""
	for _, l := range f.lines {
		at := l.At.Round(time.Millisecond).String()
		if at == last {
			at = "" // the page shows a time once
		} else {
			last = at
		}
		out := page.Line{At: at, Lane: -1, Who: l.Actor, Text: l.Text, Mark: markOf(l)}
		if !l.State {
			lane := laneOf(l.Actor)
			if out.Lane = slices.Index(p.Lanes, lane); out.Lane < 0 {
				out.Lane = len(p.Lanes)
				p.Lanes = append(p.Lanes, lane)
			}
		}
		p.Lines = append(p.Lines, out)
	}
	return p
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

// markOf returns how a page draws a line.
func markOf(l timeline.Line) page.Mark {
	switch {
	case l.State && strings.HasPrefix(l.Text, "-"):
		return page.Missing
	case l.State && strings.HasPrefix(l.Text, "+"):
		return page.Extra
	case l.State && strings.HasPrefix(l.Text, "~"):
		return page.Differs
	case l.Wrote:
		return page.Write
	case strings.HasPrefix(l.Text, "STEP"):
		return page.Step
	case strings.HasPrefix(l.Text, "CRASH"):
		return page.Crash
	case strings.HasPrefix(l.Text, "FAULT"):
		return page.Fault
	case strings.HasPrefix(l.Text, "DOUBT"):
		return page.Doubt
	default:
		return page.Plain
	}
}
