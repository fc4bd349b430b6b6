// Package bench holds the tests that need other libraries: Kubernetes', and a linearizability checker (lincheck). It proves that setpoint's queue can replace client-go's, in a
// client-go worker loop and in a controller-runtime controller. It benchmarks queues, caches, informers, and controllers of both sides. It
// injects the same faults into client-go's elector and into setpoint's. It is a separate module, so that the library requires none of
// those libraries. It exports nothing.
package bench
