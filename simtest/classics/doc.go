// Package classics has six bugs of well-known operators. Each is modeled as a small controller that package simtest breaks, and as its fix,
// which survives every single fault and 500 pairs. The tests of this directory contain them: read them as documentation of controller bugs,
// and run them with go test -v to see the plans.
//
//	rabbitmq-782    two writes, and a guard that checks only the first of them
//	zookeeper-312   children that are deleted by name, by a process whose cache is stale
//	cassandra-398   cleanup that needs to see the moment of a deletion
//	ack-2062        a call of a cloud API whose result is lost with the process
//	kuberay-715     children counted in a cache that does not show the controller's own writes
//	knative-8539    a condition that holds for a moment, and is gone when the controller looks
//
// # Guarantees
//
//  1. The kit finds each bug, with the kind of fault that the report of the bug names.
//  2. It finds no failure of a fix, under every single fault and 500 pairs of faults: those that go test tries with CLASSICS_MODEL=full.
//     Two of the fixes have an advisory.
package classics
