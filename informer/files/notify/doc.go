// Package notify wakes a source of package files when the operating system reports that something has changed in its directories.
//
// # Usage
//
//	source, err := files.New("/etc/sites", decode, key, files.Config[Site]{Interval: 30 * time.Second})
//	go notify.Run(ctx, source, notify.Config{})
//
// # Guarantees
//
//  1. An event says only where to look again, never what has happened: what the source reports comes from its comparisons. A lost, late, or wrong
//     event is at worst a change that is seen after files.Config.Interval.
//  2. Nothing is missed between a watch and the comparison before it: each directory is compared again after its watch was added.
//  3. A directory that is moved, or replaced by another one, loses its watch, and the new one gets its own. The links on the way to the root, and
//     those to directories below it, are watched too.
//  4. After an overflow of the event queue, the whole tree is compared.
//  5. If the system has no more watches, or none at all, the error is reported once, and again only after it has changed. Run tries again every
//     30 s, and meanwhile the source compares at its interval.
//
// Network file systems report changes of this machine only: there, and where no watches are left, the interval decides how soon a change is
// seen.
package notify
