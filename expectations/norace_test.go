//go:build !race

package expectations_test

const underRace = false
