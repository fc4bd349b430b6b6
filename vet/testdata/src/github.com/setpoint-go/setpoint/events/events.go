// Package events has the part of the real package that the tests of the analyzers use.
package events

type Recorder struct{}

func (r *Recorder) Warning(about any, reason, message string) {}
