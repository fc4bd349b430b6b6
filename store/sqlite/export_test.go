package sqlite

import "database/sql"

// Writer returns the pool of the connection that writes.
func (b *Backend) Writer() *sql.DB { return b.write }
