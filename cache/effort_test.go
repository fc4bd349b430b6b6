package cache_test

import "os"

// modelVariable makes the models try all: CACHE_MODEL=full.
const modelVariable = "CACHE_MODEL"

// effort returns few, or all if everything is to be tried.
func effort(few, all int) int {
	if os.Getenv(modelVariable) == "full" {
		return all
	}
	return few
}
