// Package follow implements the watch of a database that must be polled: it reads the changes after a version, reports them, and waits
// until it is woken or the next poll is due. The nested modules of the databases build their watches on it.
//
// # Guarantees
//
//  1. A [broadcast.Signal] that wakes while changes are read makes the loop read again, so no change waits for the next poll.
//  2. The loop is never silent for longer than backend.BookmarkInterval, however long Poll is, as long as a read takes
//     less than 100 ms.
//  3. When the loop has read up to a version without reporting it, it reports a bookmark of that version.
//  4. After a wake-up, as long as reads return [Settle], the loop reads again after 5 ms. It doubles the pause each time, until a poll
//     is due. So a change that becomes visible some time after the wake-up is read within the same time plus 5 ms.
//  5. While the loop reports a page, it reads the next one, and no further: see [Ahead].
//  6. With a [Loop.Pace], the loop reads at once when it is woken, unless its last read was less than the pace ago: then it reads when the
//     pace has passed. When wake-ups follow each other within the pace, it reads once in each pace without being woken, until a read finds
//     nothing. So no change waits for longer than the pace, and guarantee 4 holds for a change that is not in such a stream.
package follow
