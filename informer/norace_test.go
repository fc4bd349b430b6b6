//go:build !race

package informer_test

const underRace = false
