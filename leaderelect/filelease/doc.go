// Package filelease keeps leases in a directory, for the processes of one host. It works on Linux, macOS, and the BSDs, on a
// local file system with hard links. It does not work on NFS, because NFS clients cache directories.
//
// # Usage
//
//	leases, err := filelease.New("/var/lib/shop/leases")
//	...
//	elector, err := leaderelect.New(leaderelect.Config{Store: leases, Key: "shop-controller", ...})
//
// # Guarantees
//
//  1. A write that was acknowledged has been synced, and survives a crash of the machine.
//  2. Of several writers that replace the same record, one succeeds. The others return leaderelect.ErrConflict.
//  3. There is no lock. A process that is killed or suspended (SIGSTOP) at any point of a write blocks no other. If it
//     continues after others have written, its write has no effect.
//  4. An error that says that this process may not write the files, because of their permissions or of a read-only file
//     system, is marked with retry.Permanent.
//  5. A damaged file blocks only one key, and only for one LeaseDuration. Terms still grow.
//
// # Files
//
// Each key has a directory, named after it (shop-controller.d). Each write adds a file to it, whose name is the next
// number (00000000000000000012.lease). The file with the greatest number is the record. A writer writes and syncs its
// file under a temporary name, and then links it to the number: only one writer can link a number. A writer keeps the four
// files before its own, and those of the last ten seconds, but at most 64. It removes all others. So a slow writer can
// still find out whether its write has succeeded, and the term of a damaged file can be told from those before it.
//
// # Damaged files
//
// If the file of a record is damaged, Get and List return a leaderelect.Entry without a value. Its Term is at least the
// Term that the file had, and the next leader has a greater one. Electors treat it as an unreadable record: they wait for
// a LeaseDuration and replace it.
//
// To remove a record by hand, stop all processes that use it and remove its directory. A process that continues sees
// leaderelect.ErrStoreRegressed.
//
// # Shutdown
//
// A store starts no goroutine and keeps no file open. A write that waits for the disk does not return when its ctx ends.
//
// # Testing
//
// Call [New] with t.TempDir. If a test needs faults, use package memlease.
package filelease
