package cache_test

import (
	"os"
)

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// modelVariable makes the models try all: CACHE_MODEL=full.
const modelVariable = "CACHE_MODEL"

// effort returns few, or all if everything is to be tried.
func effort(few, all int) int {
	if os.Getenv(modelVariable) == "full" {
		return all
	}
	return few
}
