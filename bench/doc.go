// Package bench holds what needs Kubernetes' libraries: the proof that setpoint's queue takes the place of client-go's
// in a client-go worker loop and in a controller-runtime controller, the benchmarks that compare it with theirs, and the
// faults that are played on client-go's elector and on setpoint's. It is a module of its own, so that the library requires
// none of them. It exports nothing.
package bench
