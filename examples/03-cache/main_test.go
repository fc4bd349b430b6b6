package main

func Example() {
	main()
	// Output:
	// in paris: [m2 m3] with gpu: [m1 m3]
	// m1 is in rome as we wrote, in berlin as the cache knows
	// m1 Replaced rome
	// m3 Replaced oslo
	// m2 Deleted paris
	// the cache has all up to version 7
	// m1 is in rome
}
