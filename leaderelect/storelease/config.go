package storelease

import "cmp"

// Config is what a [Store] needs to know. The zero value is a good one.
type Config struct {
	// Prefix begins the key of every object that keeps a lease. Defaults to "lease/".
	Prefix string

	// Fence is the key of the one lease whose leaders write to this database with store.IfTerm. Its updates carry
	// IfTerm too: from the moment in which a leader has taken over, every write of the leaders before it is refused,
	// although the new one has written nothing yet.
	//
	// There can be one such lease in a database, because IfTerm compares with the greatest term of all. Empty is
	// none: then a leader's first write with IfTerm is what stops those before it.
	Fence string

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "lease/")
	return c
}
