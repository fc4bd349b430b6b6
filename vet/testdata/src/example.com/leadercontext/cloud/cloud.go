// Package cloud is a helper in the same module.
package cloud

import "context"

func call(ctx context.Context) error { return nil }

// Forget loses the context of its caller.
func Forget() error { return call(context.Background()) }

// Later does so in a goroutine of its own.
func Later() { go call(context.Background()) }
