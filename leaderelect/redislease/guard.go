package redislease

import (
	"context"
	"fmt"
	"strconv"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Guarded runs a script for the leadership of ctx, which is the context of OnStartedLeading or one derived from it. The
// script runs only if the record of the lease still has the term of that leadership. Otherwise the error wraps
// [ErrFenced]. Guarded returns the script's result. It returns an error if ctx belongs to no leadership, and at the Deadline
// that the leadership had at the call.
//
// The script is a list of statements, with keys and args in KEYS and ARGV. Redis runs the comparison and the script as
// one step, so its writes happen before any successor begins. In a cluster, keys must be in the slot of the lease: use
// the hash tag of Config.Prefix in them.
func (s *Store) Guarded(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return nil, fmt.Errorf("redislease: guard: %w", errNoLeadership)
	}
	// The context of a leadership has no deadline, because the deadline moves. Some clients only use the deadline of a
	// context.
	ctx, cancel := context.WithDeadline(ctx, l.Deadline())
	defer cancel()
	return s.GuardedTerm(ctx, l.Key(), l.Term(), script, keys, args...)
}

// GuardedTerm is [Store.Guarded] with an explicit key and term, for example if the leader has sent them with a request to
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
	case len(result) == 1: // the script has no result
		return nil, nil
	}
	if err, ok := result[1].(error); ok { // the client returns an error as an element
		return nil, fmt.Errorf("redislease: guard by %q: %w", key, err)
	}
	return result[1], nil
}
