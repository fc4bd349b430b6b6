package sqlite

import (
	"database/sql"
	"fmt"
)

// Writer returns the pool of the connection that writes.
func (b *Backend) Writer() *sql.DB { return b.write }

// Statements returns the text of all statements.
func Statements() string { return fmt.Sprint(newTables("")) }
