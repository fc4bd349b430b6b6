package orchestrator

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/store"
)

// errNoReader means that the reader of the output is gone.
var errNoReader = errors.New("webapp: the reader of the output is gone")

// output is the output of the program. It calls gone when the reader is gone, as after | head.
type output struct {
	io.Writer
	gone func(error)
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.gone(errNoReader)
	}
	return n, err
}

// printer returns a sink that prints each event as a line. It may be called concurrently.
func printer(out io.Writer) func(events.Event) {
	var mu sync.Mutex // one line at a time
	return func(e events.Event) {
		mark := " "
		if e.Type == events.Warning {
			mark = "!"
		}
		when := e.Last.Format("15:04:05.000")
		line := fmt.Sprintf("%s %s %-10s %-10s %-10s %s", when, mark, e.About.Kind, e.About.Key, e.Reason, e.Message)
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, printable(line)+"\n") // the program continues, or output.gone stops it
	}
}

// printable returns s with control characters of a terminal escaped, as in \x1b. The name of a file may contain any.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// complainer returns a function that logs errors, each at most once a minute, because polls fail repeatedly. It may be
// called concurrently.
func complainer(log *slog.Logger, message string) func(error) {
	var mu sync.Mutex
	var last string
	var when time.Time
	isNews := func(err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if err.Error() == last && time.Since(when) < time.Minute {
			return false
		}
		last, when = err.Error(), time.Now()
		return true
	}
	return func(err error) {
		if isNews(err) {
			log.Warn(message, "error", err)
		}
	}
}

// problems reports what is wrong with the manifests, as events of their files: each problem once, and again only after it has changed.
type problems struct {
	of     func() []error
	events *events.Recorder

	mu sync.Mutex
	// mu guards the following.
	reported map[string]string // by file
}

// report reports what has changed. Several goroutines may call it concurrently.
func (p *problems) report() {
	p.mu.Lock()
	before, now := p.reported, make(map[string]string)
	for _, err := range p.of() {
		if e := new(files.Error); errors.As(err, &e) {
			now[e.Path] = e.Err.Error()
		}
	}
	p.reported = now
	p.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(now)) {
		if now[file] != before[file] {
			p.events.Warning(store.Ref{Kind: "File", Key: file}, reasonRejected, now[file])
		}
	}
	for _, file := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[file]; !still {
			p.events.Normal(store.Ref{Kind: "File", Key: file}, "Accepted", "it has no problem anymore")
		}
	}
}

// counted returns a number and its noun, in the singular or plural: 1 replica, 2 replicas.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
