package informer

import (
	"context"
	"fmt"
	"reflect"
	"strings"
)

// Syncer is something that is ready for use once it has seen the present: an [Informer] when its cache holds the first
// list, a [Registration] when its handler knows it.
type Syncer interface {
	// Name says what it is, for people.
	Name() string

	// Synced returns a channel that is closed when it is ready.
	Synced() <-chan struct{}
}

// WaitForSync waits until every one of ss is ready, or ctx ends. Its error names those that are not ready and wraps
// [context.Cause] of ctx; of a [Group] it names the members. If all are ready, it does not matter whether ctx has ended.
// WaitForSync panics if one of ss is nil.
func WaitForSync(ctx context.Context, ss ...Syncer) error {
	for i, s := range ss {
		if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			panic(fmt.Sprintf("informer: WaitForSync called with nil as argument %d", i+2))
		}
	}
	for _, s := range ss {
		select {
		case <-s.Synced():
		case <-ctx.Done():
			return notSynced(ctx, ss)
		}
	}
	return nil
}

// notSynced names those of ss that are not ready now, if any.
func notSynced(ctx context.Context, ss []Syncer) error {
	names := unready(nil, ss)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("informer: wait for sync of %s: %w", strings.Join(names, ", "), context.Cause(ctx))
}

// unready adds the names of those of ss that are not ready to names: of one that is made of others theirs, unless all of
// them are.
func unready(names []string, ss []Syncer) []string {
	for _, s := range ss {
		if isClosed(s.Synced()) {
			continue
		}
		n := len(names)
		if whole, ok := s.(interface{ Syncers() []Syncer }); ok {
			names = unready(names, whole.Syncers())
		}
		if len(names) == n {
			names = append(names, s.Name())
		}
	}
	return names
}
