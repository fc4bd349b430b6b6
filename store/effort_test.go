package store_test

import "os"

// modelVariable makes the models try longer sequences and more values: STORE_MODEL=full.
const modelVariable = "STORE_MODEL"

// effort returns few, or all if everything is to be tried. What few leaves out is the same code with other values.
func effort(few, all int) int {
	if os.Getenv(modelVariable) == "full" {
		return all
	}
	return few
}
