package main

func Example() {
	main()
	// Output:
	// replica-1 leads in term 1
	// replica-1 finishes, and may still write: true
	// replica-2 leads in term 2
	// replica-1 is refused: true
	// replica-2 finishes, and may still write: true
}
