//go:build !race

package looptest

const underRace = false
