//go:build !race

package classics_test

const raceEnabled = false
