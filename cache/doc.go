// Package cache holds the mirror of a source in memory: an [Indexer], which finds objects by key and by typed indexes,
// and a [DeltaFIFO], which carries the changes of the source to it.
package cache
