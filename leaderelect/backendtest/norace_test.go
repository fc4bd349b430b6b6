//go:build linux && !race

package backendtest

// raceDetector makes everything slower.
const raceDetector = false
