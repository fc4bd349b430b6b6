//go:build !race

package plain_test

const raceEnabled = false
