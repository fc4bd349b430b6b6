// Package decoded is the codec of simulated stores: that of package store, except that it remembers values. Each cache and each write of
// each run decodes the same few values, which would take an eighth of the time of a run. It is for package simtest.
//
// # Guarantees
//
//  1. It encodes and decodes as the default codec of package store does.
//  2. Two decoded values share no mutable memory.
package decoded
