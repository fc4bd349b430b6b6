// Package part has the parts of a system in a simulation, without their types, as drivers need them. It is for package simtest.
//
// # Guarantees
//
//  1. A [Loop] starts nothing by itself: its driver decides when a reconcile begins.
package part
