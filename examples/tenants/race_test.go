//go:build race

package main

// A simulation runs one thing at a time, and takes ten times as long with the race detector, so one story is enough.
func init() { told = []string{"a resource is created, moved, and deleted"} }
