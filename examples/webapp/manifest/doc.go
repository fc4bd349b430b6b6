// Package manifest reads the desired state of webapp: a directory of JSON files, one app each, that people edit while
// it is read.
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
//  1. Nothing wrong is acted upon: syntax, fields, types, limits and conflicts between files are checked, and a file
//     that fails has no effect but a problem, reported once and kept for [Dir.Problems].
//  2. Nothing is lost by a mistake: the app of a file that became bad, unreadable or half-written stays as the file
//     last said it, until the file is good again or deleted. A directory that cannot be read is an error of List, and
//     not an empty list.
//  3. No two manifests of a list share a name or a port. The file that has a name or port keeps it; among files that
//     are new, the alphabetically first gets it. Files that swap names or ports in one go are no conflict.
//  4. List returns when its context ends, even if a read blocks, as on a network file system that hangs. A file that
//     cannot be read within [Config.ReadTimeout] is a problem of that file. In the first List it is an error, because
//     nothing says yet which app the file describes.
//  5. Level-triggered: List reads everything each time. The order in which files changed between two lists makes no
//     difference.
//
// # Testing
//
// [Parse] is a pure function. A Dir works on any temporary directory.
package manifest
