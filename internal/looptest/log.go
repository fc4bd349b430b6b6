package looptest

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Log is a list of events, in order. The zero value is empty. Its methods may be called concurrently.
type Log[E any] struct {
	mu sync.Mutex
	// mu guards the following.
	entries []E
}

// Add appends e.
func (l *Log[E]) Add(e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// Len returns the number of entries that were added and not taken.
func (l *Log[E]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// All returns the entries that were added and not taken.
func (l *Log[E]) All() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Take returns the entries since the last Take.
func (l *Log[E]) Take() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.entries
	l.entries = nil
	return taken
}

// Text collects the text that is written to it. The zero value is empty. Its methods may be called concurrently.
type Text struct {
	mu sync.Mutex
	// mu guards the following.
	text strings.Builder
}

// Write appends p.
func (x *Text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

// String returns the text.
func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// Logger returns a logger that writes to out, without times.
func Logger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
