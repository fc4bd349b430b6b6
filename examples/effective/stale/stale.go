// Package stale is chapter 3 of "Effective controllers": docs/effective/03-stale.md. An agent on each node runs the pods of that node.
// The wrong one starts the pods that its cache shows. The right one reads the store before it starts a pod.
package stale

import "context"

// Pod is a program that must never run on two nodes at once.
type Pod struct {
	Node   string // where the user wants it to run
	Status Status `store:"status"`
}

// Status is written by agents.
type Status struct {
	Holder string // the node that may run the pod; empty after it has stopped there
}

// Machine runs pods. It keeps them running when its agent restarts. Both methods may be called twice.
type Machine interface {
	Start(ctx context.Context, pod string) error
	Stop(ctx context.Context, pod string) error
}
