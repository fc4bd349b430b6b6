package redislease

import "context"

// Client runs scripts on a Redis server. A [Store] needs nothing else of a client library.
//
// Eval runs the command EVAL. It returns the reply: an integer as int64, a bulk string as string or []byte, an array as
// []any. It returns an error only if the reply is an error or there is none. It should return an error when ctx ends, or
// at least at the deadline of ctx. The store passes the ctx of its caller.
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
