package leaderelect

import (
	"cmp"
	"context"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// forever is longer than any test lasts.
const forever = 100 * 365 * 24 * time.Hour

// Appoint makes a leader without an election, for tests and simulations of work that needs a [Leadership]. work is the
// context that an [Elector] would pass to OnStartedLeading, and [FromContext] returns the leadership that it carries.
//
//	work, depose := leaderelect.Appoint(ctx, "shop-controller", 7)
//	defer depose(leaderelect.ErrTermEnded)
//	result, err := reconcile(work, "site-1") // its writes carry term 7
//
// The leadership lasts until depose is called. Then both of its contexts end with the cause why, which Leadership.Err
// returns; if why is nil, that is [ErrTermEnded]. Later calls of depose have no effect. Until then, the
// [Leadership.Deadline] is a hundred years away. If ctx ends, work ends and the leadership lasts, as in a drain. Call depose
// at the end of the test, because it also stops a timer. Appoint does not check the term: give each leader of a key a
// greater one.
func Appoint(ctx context.Context, key string, term uint64) (work context.Context, depose func(why error)) {
	l := newLeadership(ctx, &Config{Key: key, RenewDeadline: forever}, term, lease.Beginning())
	return l.workCtx, func(why error) { l.end(cmp.Or(why, ErrTermEnded)) }
}
