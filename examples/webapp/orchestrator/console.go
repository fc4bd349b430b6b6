package orchestrator

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
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

// problemOf returns the subject of an error of the manifests.
func problemOf(err error) store.Ref {
	ref := store.Ref{Kind: "File"}
	if e := new(manifest.Error); errors.As(err, &e) {
		ref.Key = e.File
	}
	return ref
}

// counted returns a number and its noun, in the singular or plural: 1 replica, 2 replicas.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
