// Package client has the part of the real package that the tests of the analyzers use.
package client

import "context"

type Object interface{ GetLabels() map[string]string }

type Client interface {
	Get(ctx context.Context, key string, obj Object) error
	Update(ctx context.Context, obj Object) error
	Delete(ctx context.Context, obj Object) error
}
