package main

func Example() {
	main()
	// Output:
	// berlin is as it was written
	// oslo is as it was written
	// lima was tried for too long
	// atlantis can never be
	// atlantis is parked: true
}
