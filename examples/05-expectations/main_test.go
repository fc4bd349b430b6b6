package main

func Example() {
	main()
	// Output:
	// careless: 6 servers, 3 wanted
	// counted: 3 servers, 3 wanted
	// tracked: 3 servers, 3 wanted
	// versions: 3 servers, 3 wanted
}
