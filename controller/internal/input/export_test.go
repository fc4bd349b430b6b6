package input

// AddAll is what an event with these keys adds.
func AddAll(add func(string), a, b []string) { addAll(add, a, b) }
