package store_test

import "os"

// modelVariable makes the tests under the race detector as thorough as those without it: STORE_MODEL=full.
const modelVariable = "STORE_MODEL"

// effort returns all, or few under the race detector, which makes copies and comparisons of values many times slower.
// What few leaves out is the same code with other values, and every run without the detector has it.
func effort(few, all int) int {
	if raceEnabled && os.Getenv(modelVariable) != "full" {
		return few
	}
	return all
}
