//go:build race

package cache_test

// underRace reports whether the race detector is on, which makes everything ten times slower. Tests with one goroutine, about
// which it has nothing to say, then do less.
const underRace = true
