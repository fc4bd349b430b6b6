package main

func Example() {
	main()
	// Output:
	// its servers go after the site: 0 are left
	// they go before it: 0 are left
	// they stay: 2 are left
}
