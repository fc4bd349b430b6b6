package main

func Example() {
	main()
	// Output:
	// example.com is there, from the start: true
	// example.org is there, from the start: true
	// example.com: serial 2, was 1
	// example.org was deleted, serial 1
	// late: example.com, serial 2
	// objects in the cache: 1
}
