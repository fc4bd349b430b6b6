// Package usertable has what the two ways to follow a table of the user share: by triggers and a log of keys, in package mysql, and by the
// binary log, in package binlog. Both learn from a log which keys were written, and read the rows from the table.
//
// # Guarantees
//
//  1. [Find] returns a schema only if the table can be followed: it is in InnoDB, and its key has a unique index of whole values.
//  2. [Entries] compares keys by the text that the server makes of them. A key that the collation takes for that of a row, and that has other
//     bytes, is the deletion of the key, and a change of the row.
//  3. A [Comparison] leaves out the keys that the watch has reported since it began, so what it finds has happened without the log.
package usertable
