// Package follow is the watch of a database that has to be asked: it reads the changes after a version, tells them, and waits
// until it is woken or it is time to look again. The nested modules of the databases make their watches of it.
//
// # Guarantees
//
//  1. A [Signal] that wakes while changes are read makes the loop read again, so no change waits for the next poll.
//  2. The loop is never silent for longer than backend.BookmarkInterval, however long Poll is, as long as the reads return
//     at once.
//  3. When the loop has read up to a version without telling it, it tells a bookmark of that version.
package follow
