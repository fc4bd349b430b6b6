package main

func Example() {
	main()
	// Output:
	// 4 tenants wait
	// umbrella: done
	// acme: done
	// hooli: attempt 1 failed
	// initech: done
	// acme: done
	// hooli: attempt 2 failed
	// hooli: attempt 3 failed
	// hooli: given up after 3 attempts
	// hooli is Parked: no route to host
	// 1 tenant waits
}
