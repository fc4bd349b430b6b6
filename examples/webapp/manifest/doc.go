// Package manifest reads the desired state of webapp: a directory of JSON files, one app each, that users edit while it
// is read.
//
// # Usage
//
//	{"name": "blue", "replicas": 3, "port": 8001, "message": "hello from blue"}
//
//	source, err := manifest.Open("apps", 250*time.Millisecond)
//	manifests, err := informer.New(source, manifest.Name, informer.Config{Name: "manifests"})
//
// # Guarantees
//
//  1. A faulty manifest is never acted upon: syntax, fields, types, and limits are checked. Its app keeps the last good
//     content until the file is good again or deleted.
//  2. No two manifests share a name: the file that has a name keeps it. Two apps may want one port, and the one that
//     listens first has it.
//  3. The rest is what package files guarantees: what cannot be read is not deleted, and nothing is half read.
//
// # Testing
//
// [Parse] is a pure function. The source works on any temporary directory.
package manifest
