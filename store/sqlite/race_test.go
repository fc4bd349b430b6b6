//go:build race

package sqlite_test

// With the race detector, SQLite takes ten times as long.
const raceEnabled = true

func init() { *cycles = 1 }
