package simtest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	// progressFlag and budgetFlag are package variables because go test reads flags before any test runs.
	progressFlag = flag.String("simtest.progress", "", "tell how far simtest is at this interval, such as 2s; with -v, 10s is the default")
	budgetFlag   = flag.String("simtest.budget", "", "how long simtest tries random plans after all others, such as 1m; it replaces World.Budget")
)

// progressInterval is that under go test -v.
const progressInterval = 10 * time.Second

// durationOf returns the duration of a flag, or another if it is not set.
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

// progress tells now and then how far an exploration is.
type progress struct {
	tell  func(format string, args ...any)
	every time.Duration // zero for never
	began time.Time
	last  time.Time
	done  int
	of    int       // plans that are to be tried; of random plans it is not known
	until time.Time // the end of random plans; zero before
}

func newProgress(t *testing.T) *progress {
	p := &progress{tell: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if testing.Verbose() {
		p.tell, p.every = t.Logf, progressInterval
	}
	p.every = durationOf(t, "progress", *progressFlag, p.every)
	p.began = time.Now()
	p.last = p.began
	return p
}

// step counts a plan.
func (p *progress) step(test string, now time.Time) {
	p.done++
	if p.every <= 0 || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	rate := float64(p.done) / now.Sub(p.began).Seconds()
	if !p.until.IsZero() {
		p.tell("simtest: %s: %d plans, %.0f per second, random plans for another %v", test, p.done, rate, round(p.until.Sub(now)))
		return
	}
	left := time.Duration(float64(p.of-p.done) / rate * float64(time.Second))
	p.tell("simtest: %s: %d of %d plans, %.0f per second, %v left", test, p.done, p.of, rate, round(left))
}

func round(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }
