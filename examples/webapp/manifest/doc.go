// Package manifest reads the desired state of webapp: a directory of JSON files, one app each, that users edit while it
// is read.
//
// # Usage
//
//	{"name": "blue", "replicas": 3, "port": 8001, "message": "hello from blue"}
//
//	dir, err := manifest.Open("apps", manifest.Config{Report: func(err error) { logger.Warn("manifest", "error", err) }})
//	manifests, err := dir.List(ctx)       // poll this
//
// # Guarantees
//
//  1. A faulty manifest is never acted upon: syntax, fields, types, limits, and conflicts between files are checked.
//     A file that fails has no effect except a problem, which is reported once and kept for [Dir.Problems].
//  2. A mistake loses nothing: if a file becomes invalid, unreadable, or half-written, its app keeps the last good
//     content until the file is good again or deleted. If the directory cannot be read, List returns an error, not an
//     empty list.
//  3. No two manifests of a list share a name or a port. The file that has a name or port keeps it. Among new files,
//     the alphabetically first gets it. Files that swap names or ports at once do not conflict.
//  4. List returns when its context ends, even if a read blocks, as on a network file system that hangs. A file that
//     cannot be read within [Config.ReadTimeout] is a problem of that file. In the first List it is an error, because
//     nothing says yet which app the file describes.
//  5. Level-triggered: List reads everything each time. The order in which files changed between two lists does not
//     matter.
//
// # Testing
//
// [Parse] is a pure function. A Dir works on any temporary directory.
package manifest
