package redislease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Guarded runs your script for a leadership, which it takes from ctx: the context of OnStartedLeading, or one derived from
// it. The script runs if the record of that leadership's lease still has its term. Otherwise it does not run, and the
// error wraps [ErrFenced]. Guarded returns the script's result, or an error at the Deadline that the lease had at the call.
//
// The script is a list of statements, and sees keys and args in KEYS and ARGV. Both steps are one to Redis, so what it
// writes is written before any successor begins. In a cluster, keys have to be in the slot of the lease: write them with
// the hash tag of Config.Prefix.
func (s *Store) Guarded(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return nil, fmt.Errorf("redislease: guard: %w", errNoLeadership)
	}
	// The context of a leadership has no deadline, for that moves, and there are clients that look at nothing else.
	ctx, cancel := context.WithDeadline(ctx, l.Deadline())
	defer cancel()
	return s.GuardedTerm(ctx, l.Key(), l.Term(), script, keys, args...)
}

// GuardedTerm is [Store.Guarded] for a key and a term that did not come in ctx, for example because the leader sent them
// with a request to another service.
func (s *Store) GuardedTerm(ctx context.Context, key string, term uint64, script string, keys []string, args ...any) (any, error) {
	names := append([]string{s.name(key)}, keys...)
	all := append([]any{strconv.FormatUint(term, 10)}, args...)
	reply, err := s.eval(ctx, guardBegin+script+guardEnd, names, all...)
	if err != nil {
		return nil, fmt.Errorf("redislease: guard by %q: %w", key, err)
	}
	result, ok := reply.([]any)
	switch {
	case !ok || len(result) > 2:
		return nil, fmt.Errorf("redislease: guard by %q: %w", key, unexpected(reply))
	case len(result) == 0:
		return nil, fmt.Errorf("redislease: guard by %q: term %d: %w", key, term, ErrFenced)
	case len(result) == 1: // the script has returned nothing
		return nil, nil
	}
	if err, ok := result[1].(error); ok { // a client tells of an error in its place
		return nil, fmt.Errorf("redislease: guard by %q: %w", key, err)
	}
	return result[1], nil
}
