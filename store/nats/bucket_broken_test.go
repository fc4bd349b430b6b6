package nats_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// changing returns a bucket whose watches change each event, or drop it.
func changing(change func(e *informer.Event[site]) (keep bool)) func(b *nats.Bucket[site]) informer.ListWatcher[site] {
	return func(b *nats.Bucket[site]) informer.ListWatcher[site] { return dbtest.AlterEvent(b, change) }
}

// listing returns a bucket whose lists are changed.
func listing(change func(l *informer.List[site])) func(b *nats.Bucket[site]) informer.ListWatcher[site] {
	return func(b *nats.Bucket[site]) informer.ListWatcher[site] { return dbtest.AlterPages(b, change) }
}

func TestSuiteNoticesBrokenBuckets(t *testing.T) {
	if raceEnabled {
		t.Skip("it runs without the race detector")
	}
	t.Parallel()
	url := serve(t).ClientURL()
	for _, c := range []struct {
		name    string
		noticed string // the case that fails; it waits for an event for long if its name begins with !
		change  func(b *nats.Bucket[site]) informer.ListWatcher[site]
	}{
		{
			"a watch begins at its version, not after it, as ResumeFromRevision does", "a watch yields each change after its list, once and in order",
			func(b *nats.Bucket[site]) informer.ListWatcher[site] {
				return dbtest.Altered[site]{PagedSource: b, WatchWith: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
					return b.Watch(ctx, max(after, 1)-1)
				}}
			},
		},
		{
			"a watch begins at the current version, as UpdatesOnly does", "!a change between a list and its watch is not missed",
			func(b *nats.Bucket[site]) informer.ListWatcher[site] {
				return dbtest.Altered[site]{PagedSource: b, WatchWith: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
					return func(yield func(informer.Event[site], error) bool) {
						now, err := b.LatestVersion(ctx)
						if err != nil {
							yield(informer.Event[site]{}, err)
							return
						}
						b.Watch(ctx, now)(yield)
					}
				}}
			},
		},
		{
			"a watch leaves deletions out, as IgnoreDeletes does", "!a deletion carries the last state, and a creation after it is new",
			changing(func(e *informer.Event[site]) bool { return e.Type != informer.Deleted }),
		},
		{
			"a marker is an empty value", "a deletion carries the last state, and a creation after it is new",
			changing(func(e *informer.Event[site]) bool {
				if e.Type == informer.Deleted {
					e.Type, e.KeyOnly = informer.Modified, false
				}
				return true
			}),
		},
		{
			"each event comes twice", "a watch yields each change after its list, once and in order",
			func(b *nats.Bucket[site]) informer.ListWatcher[site] {
				return dbtest.AlterEvents(b, func(e informer.Event[site]) []informer.Event[site] { return []informer.Event[site]{e, e} })
			},
		},
		{
			"a bookmark is ahead", "after a bookmark nothing is missed or repeated",
			changing(func(e *informer.Event[site]) bool {
				if e.Type == informer.Bookmark {
					e.Version++
				}
				return true
			}),
		},
		{
			"a value that does not decode is a deletion", "a watch reports an object that cannot be read, and goes on",
			changing(func(e *informer.Event[site]) bool {
				if e.Type == informer.Unreadable {
					e.Type, e.KeyOnly, e.Err = informer.Deleted, true, nil
				}
				return true
			}),
		},
		{
			"a value that does not decode ends the watch", "a watch reports an object that cannot be read, and goes on",
			func(b *nats.Bucket[site]) informer.ListWatcher[site] {
				return dbtest.EndWhereUnreadable(b)
			},
		},
		{
			"a deletion does not say that it has only a key", "a deletion carries the last state, and a creation after it is new",
			changing(func(e *informer.Event[site]) bool { e.KeyOnly = false; return true }),
		},
		{
			"a list leaves out what does not decode", "a list names an object that cannot be read, and has all others",
			listing(func(l *informer.List[site]) { l.Unread = nil }),
		},
		{
			"the version of a list is its greatest revision, without the markers", "the version of a list grows with every change",
			listing(func(l *informer.List[site]) {
				l.Version = 0
				for _, s := range l.Items {
					l.Version = max(l.Version, informer.Version(s.At))
				}
			}),
		},
		{
			"a list leaves out the key that was changed last, as if it had been superseded", "a change between a list and its watch is not missed",
			listing(func(l *informer.List[site]) {
				l.Items = slices.DeleteFunc(l.Items, func(s site) bool { return informer.Version(s.At) == l.Version })
			}),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			noticed, waits := strings.CutPrefix(c.noticed, "!")
			if waits && *cycles < 3 {
				t.Skip("the case waits for 30 s; run it with -cycles=3 or more")
			}
			all := informertest.Cases[site]()
			i := slices.IndexFunc(all, func(k informertest.Case[site]) bool { return k.Name == noticed })
			require.GreaterOrEqual(t, i, 0, "there is no such case")
			message := dbtest.Failure(t, func(t testing.TB) {
				all[i].Run(t, bucketKinds["plain"].subject(t, connect(t, url), c.change))
			})
			assert.NotEmpty(t, message)
			t.Log(message)
		})
	}
}
