package lincheck_test

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
