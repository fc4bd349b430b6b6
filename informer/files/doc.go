// Package files makes a source of the objects in a directory: one object a file, or many documents in one file. Any program may write them: an
// editor, git, a copy of another machine, or Kubernetes that mounts a ConfigMap.
//
// # Usage
//
//	decode := func(path string, data []byte) ([]Site, error) { ... }
//	source, err := files.New("/etc/sites", decode, func(s Site) string { return s.Name }, files.Config[Site]{})
//	sites, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{Name: "sites"})
//
// The source compares sizes, times, and inodes with those that it has seen, at intervals, and reads what has changed. It needs no support of the
// operating system, so it works on network file systems. The nested module informer/files/notify wakes it when the operating system reports a
// change: then a change is seen within milliseconds, and the interval can be long.
//
// The informer reports problems: [informer.Informer.Unread] says why an object is not as in its file, [informer.Informer.Missing] which files
// cannot be read. Two files with one key are reported to Config.OnError of the informer, and [Source.Problems] has all problems with their paths.
//
// # Guarantees
//
//  1. What cannot be read is not deleted. If a file, a directory, or the root is forbidden, cannot be decoded, is too large, hangs, or is a link to
//     nothing, its objects are unread and keep their last states. A file of no bytes counts as one that cannot be read, since writers
//     truncate files. The root without files is an error, unless Config.Empty permits it.
//  2. An object is deleted only after every file could be read, no file has had its key for Config.Grace, and the tree has rested for as long. So an
//     object that moves to another file, or whose file is removed and written again, is updated. While any file or directory cannot be
//     read, nothing is deleted, because the key may be in that file.
//  3. A file is read after it has not changed for Config.Settle, and its stamp is the same before and after the read. A bad file does not
//     affect the others, and keeps all its last good documents. An object that Config.Valid refuses does not affect the rest of its file.
//  4. The file that has a key keeps it, also if it changes. Among new files, the first path gets it. The document that loses is a conflict. The
//     rest of its file counts. When the key leaves the file that has it, the other file takes over, and the object is updated.
//  5. All files of one comparison are of one tree: if the root leads to another directory after it than before, as with git-sync, or the link ..data
//     of a directory does, as with a ConfigMap, the comparison is made again. Files that change at once are read in one comparison.
//  6. A comparison reads everything first and then records it. So one that fails or is interrupted changes nothing, and no change is recorded
//     without its event. A change of the whole tree that no comparison sees is never reported.
//  7. The version is a counter of this Source: one more for each event, and for each change of what is missing. A change of what is missing ends
//     the watches with [informer.ErrExpired], because only a list says it. An event of a new key is Added, and a deletion has the last
//     state, or [informer.Event].KeyOnly if there was none.
//  8. After each comparison of a watch without a change, watches yield an [informer.Bookmark]. While comparisons fail, they yield none, and the
//     informer becomes stale. A nudge is never lost: a comparison that begins after it serves it.
//
// # Limits
//
// Two states of a file are the same if device, inode, size, time of modification, and time of change are. On Windows, the time of creation stands
// in for inode and time of change: a program that writes as many bytes and sets the time back goes unnoticed. On file systems that keep times in
// seconds, a file that has just changed is read once more. The clocks of this machine and of a file server need not agree.
//
// Package poll also polls: anything that returns a list. It compares whole lists, and so would read every file each time, and look at 100,000
// objects because of one. It also has one interval, and no word for a file. So a Source is not built on it, but keeps its contract.
//
// # Testing
//
// In a testing/synctest bubble, a Source works on real files. Time passes only while no file is being read. [Source.LatestVersion], and so
// [informer.Informer.CatchUp], return after what was written before the call has been read.
package files
