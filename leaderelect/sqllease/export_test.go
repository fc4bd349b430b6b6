package sqllease

// NameOf, KeyOf and PrefixOf map keys to the names of rows.
var (
	NameOf   = nameOf
	KeyOf    = keyOf
	PrefixOf = prefixOf
)
