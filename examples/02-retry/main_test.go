package main

func Example() {
	main()
	// Output:
	// attempt 1: busy
	// attempt 2: busy
	// attempt 3: <nil>
	// permanent: no such site
	// gave up: true true
	// asked until ready: 3
	// timeout: true interrupted: true
	// pieces: true true out of range
}
