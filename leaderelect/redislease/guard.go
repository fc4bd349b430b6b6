package redislease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Guarded runs a script of yours if the record of the lease under key has the term of the leadership of ctx: the context
// of OnStartedLeading, or one derived from it. Otherwise the script does not run, and the error wraps [ErrFenced]. It
// returns what the script returns, or an error when the lease would be lost without the renewals since the call.
//
// The script is a list of statements, and sees keys and args in KEYS and ARGV. Both steps are one to Redis, so what it
// writes is written before any successor begins. In a cluster, keys have to be in the slot of the lease: write them with
// the hash tag of Config.Prefix.
func (s *Store) Guarded(ctx context.Context, key, script string, keys []string, args ...any) (any, error) {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return nil, fmt.Errorf("redislease: guard by %q: %w", key, errNoLeadership)
	}
	// The context of a leadership has no deadline, for that moves, and there are clients that look at nothing else.
	ctx, cancel := context.WithDeadline(ctx, l.Deadline())
	defer cancel()
	return s.GuardedTerm(ctx, key, l.Term(), script, keys, args...)
}

// GuardedTerm is [Store.Guarded] for a term that came on another way than in ctx, such as with a request of the leader to
// another service.
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
