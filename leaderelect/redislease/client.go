package redislease

import "context"

// Client runs scripts on a Redis server. It is all that a [Store] needs of a client library.
//
// Eval is the command EVAL. It returns the reply: an integer as int64, a bulk string as string or []byte, an array as
// []any. It never returns an error for a reply that is no error. It should return when ctx ends,
// or at least at the deadline of ctx, and then with an error. Those that the store passes have one if its caller's do.
type Client interface {
	Eval(ctx context.Context, script string, keys []string, args ...any) (any, error)
}

// Func is a [Client] that is a function. With github.com/redis/go-redis:
//
//	redislease.Func(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return rdb.Eval(ctx, script, keys, args...).Result()
//	})
type Func func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Eval calls f.
func (f Func) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	return f(ctx, script, keys, args...)
}
