package main

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// printer returns a sink that prints each event as a line. It may be called by several goroutines at once.
func printer(out io.Writer) func(events.Event) {
	var mu sync.Mutex // one line at a time
	return func(e events.Event) {
		mark := " "
		if e.Type == events.Warning {
			mark = "!"
		}
		line := fmt.Sprintf("%s %s %-10s %-10s %-10s %s\n", e.Last.Format("15:04:05.000"), mark, e.About.Kind, e.About.Key, e.Reason, e.Message)
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, line) // a terminal that is gone is no reason to stop
	}
}

// problemOf says what an error of the manifests is about.
func problemOf(err error) events.Ref {
	ref := events.Ref{Kind: "File"}
	if e := new(manifest.Error); errors.As(err, &e) {
		ref.Key = e.File
	}
	return ref
}
