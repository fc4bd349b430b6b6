//go:build race

package expectations_test

// underRace says that the race detector is on, which makes everything ten times slower: tests with one goroutine, which it
// has nothing to say about, do less.
const underRace = true
