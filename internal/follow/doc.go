// Package follow is the watch of a database that has to be asked: it reads the changes after a version, tells them, and waits
// until it is woken or it is time to look again. The nested modules of the databases make their watches of it.
//
// # Guarantees
//
//  1. A [Signal] that wakes while changes are read makes the loop read again, so no change waits for the next poll.
//  2. The loop is never silent for longer than backend.BookmarkInterval, however long Poll is, as long as the reads return
//     at once.
//  3. When the loop has read up to a version without telling it, it tells a bookmark of that version.
//  4. After a wake-up, as long as reads return [Settle], the loop reads again after 5 ms, and then each time after twice as long as
//     before, until a poll is due. So a change that becomes visible some time after the wake-up is read within that time and 5 ms.
package follow
