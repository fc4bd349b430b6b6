package simtest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// progressFlag is a package variable because go test reads flags before any test runs.
var progressFlag = flag.String("simtest.progress", "", "report the progress of simtest at this interval, such as 2s; with -v, 10s is the default")

// progressInterval is the default interval under go test -v.
const progressInterval = 10 * time.Second

// durationOf returns the duration of a flag, or the given default if it is not set.
func durationOf(t *testing.T, name, text string, otherwise time.Duration) time.Duration {
	t.Helper()
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("simtest: -simtest.%s: %v", name, err)
	}
	return d
}

// progress regularly reports the progress of an exploration.
type progress struct {
	test  string
	logf  func(format string, args ...any)
	every time.Duration // zero for never
	began time.Time
	last  time.Time
	done  int
	of    int       // plans to try; unknown for random plans
	until time.Time // the end of random plans; zero before they begin
}

func newProgress(t *testing.T) progress {
	p := progress{test: t.Name(), logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if testing.Verbose() {
		p.logf, p.every = t.Logf, progressInterval
	}
	p.every = durationOf(t, "progress", *progressFlag, p.every)
	p.began = time.Now()
	p.last = p.began
	return p
}

// step counts a plan.
func (p *progress) step() {
	now := time.Now()
	p.done++
	if p.every <= 0 || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	rate := float64(p.done) / now.Sub(p.began).Seconds()
	if !p.until.IsZero() {
		p.logf("simtest: %s: %d plans, %.0f per second, random plans for another %v", p.test, p.done, rate, round(p.until.Sub(now)))
		return
	}
	left := time.Duration(float64(p.of-p.done) / rate * float64(time.Second))
	p.logf("simtest: %s: %d of %d plans, %.0f per second, %v left", p.test, p.done, p.of, rate, round(left))
}

func round(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }
