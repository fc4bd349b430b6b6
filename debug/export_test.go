package debug

// EmptyPages returns a page of each kind, without content.
func EmptyPages() []any { return []any{overview{}, queuePage{}, keyPage{}} }
