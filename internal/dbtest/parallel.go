package dbtest

import "flag"

// LimitParallel is for a TestMain that has called flag.Parse. It sets how many tests run at once, unless the command line does.
func LimitParallel(n string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", n); err != nil {
		panic(err)
	}
}
