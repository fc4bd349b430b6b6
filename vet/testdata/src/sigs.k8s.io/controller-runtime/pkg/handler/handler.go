// Package handler has the part of the real package that the tests of the analyzers use.
package handler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func EnqueueRequestsFromMapFunc(f func(context.Context, client.Object) []reconcile.Request) any {
	return nil
}
