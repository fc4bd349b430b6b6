package etcd_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// site is the object of the prefixes of these tests. Its name is the key without the prefix, and its value is a number.
type site struct {
	Name string
	Rev  int
	At   int64 // the revision
}

// siteOf decodes the sites under a prefix.
func siteOf(prefix string) func(kv *mvccpb.KeyValue) (site, error) {
	return func(kv *mvccpb.KeyValue) (s site, err error) {
		s.Name, s.At = strings.TrimPrefix(string(kv.Key), prefix), kv.ModRevision
		s.Rev, err = strconv.Atoi(string(kv.Value))
		return s, err
	}
}

func siteName(s site) string { return s.Name }

// sitesAt returns the sites under a prefix, through a client of its own.
func sitesAt(t testing.TB, c *clientv3.Client, prefix string) *etcd.Prefix[site] {
	t.Helper()
	p, err := etcd.NewPrefix(t.Context(), c, siteOf(prefix), etcd.PrefixConfig{Prefix: prefix, Poll: 20 * time.Millisecond})
	require.NoError(t, err)
	return p
}

// subjectOf returns the sites under a new prefix of a server of its own, because a compaction is one of the whole server. change may break
// the source.
func subjectOf(t testing.TB, c *clientv3.Client, change func(p *etcd.Prefix[site], prefix string) informer.ListWatcher[site]) informertest.Subject[site] {
	prefix := newPrefix() + "/"
	ctx := context.WithoutCancel(t.Context())
	op := func(c informertest.Change) clientv3.Op {
		if c.Delete {
			return clientv3.OpDelete(prefix + c.Name)
		}
		return clientv3.OpPut(prefix+c.Name, strconv.Itoa(c.Rev))
	}
	do := func(ops ...clientv3.Op) error {
		_, err := c.Txn(ctx).Then(ops...).Commit()
		return err
	}
	return informertest.Subject[site]{
		Source:   change(sitesAt(t, c, prefix), prefix),
		Put:      func(name string, rev int) error { return do(op(informertest.Change{Name: name, Rev: rev})) },
		Delete:   func(name string) error { return do(op(informertest.Change{Name: name, Delete: true})) },
		Spoil:    func(name string) error { return do(clientv3.OpPut(prefix+name, "spoiled")) },
		Together: func(first, second informertest.Change) error { return do(op(first), op(second)) },
		Overlap: func(first, second informertest.Change, look func()) error { // the second writer commits first, as if the first were slow
			if err := do(op(second)); err != nil {
				return err
			}
			look()
			return do(op(first))
		},
		Read:     func(s site) (string, int) { return s.Name, s.Rev },
		History:  100_000,
		Objects:  350, // on three pages
		Expire:   func() error { compact(t, c); return nil },
		Bookmark: func() error { return do(clientv3.OpPut("another/key", "")) },
	}
}

func asIs(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] { return p }

func TestPrefixKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	var servers pool
	informertest.Run(t, func(c *testing.T) informertest.Subject[site] {
		c.Parallel()
		return subjectOf(c, connect(c, servers.borrow(c, t).addr), asIs)
	})
}

// changing returns a prefix whose watches change each event, or drop it.
func changing(change func(e *informer.Event[site]) (keep bool)) func(p *etcd.Prefix[site], prefix string) informer.ListWatcher[site] {
	return func(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] { return dbtest.AlterEvent(p, change) }
}

func TestSuiteNoticesBrokenPrefixes(outer *testing.T) {
	skipWithRace(outer)
	t := outer
	t.Parallel()
	var servers pool
	for _, c := range []struct {
		name    string
		noticed string // the case that fails
		change  func(p *etcd.Prefix[site], prefix string) informer.ListWatcher[site]
	}{
		{
			"a watch begins at its version, not after it", "a change between a list and its watch is not missed",
			func(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] {
				return dbtest.Altered[site]{PagedSource: p, WatchWith: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
					return p.Watch(ctx, max(after, 1)-1)
				}}
			},
		},
		{
			"every event of a transaction has its full version", "changes that commit together are not split",
			changing(func(e *informer.Event[site]) bool {
				if e.Type == informer.Added || e.Type == informer.Modified {
					e.Version = informer.Version(e.Object.At)
				}
				return true
			}),
		},
		{
			"an idle watch has no bookmarks", "an idle watch yields something within the BookmarkPeriod",
			changing(func(e *informer.Event[site]) bool { return e.Type != informer.Bookmark }),
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
			func(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] {
				return dbtest.EndWhereUnreadable(p)
			},
		},
		{
			"a list leaves out what does not decode", "a list names an object that cannot be read, and has all others",
			func(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] {
				return dbtest.AlterPages(p, func(page *informer.List[site]) { page.Unread = nil })
			},
		},
		{
			"a compacted watch breaks like any other", "a watch from a version that is too old ends with ErrExpired",
			func(p *etcd.Prefix[site], _ string) informer.ListWatcher[site] {
				return dbtest.Altered[site]{PagedSource: p, WatchWith: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
					return func(yield func(informer.Event[site], error) bool) {
						for e, err := range p.Watch(ctx, after) {
							if errors.Is(err, informer.ErrExpired) {
								err = errors.New("required revision has been compacted")
							}
							if !yield(e, err) {
								return
							}
						}
					}
				}}
			},
		},
		{
			"the pages of a list are of several revisions", "a list during changes is consistent with its version",
			func(p *etcd.Prefix[site], prefix string) informer.ListWatcher[site] {
				return dbtest.Altered[site]{PagedSource: p, PagesWith: func(ctx context.Context) iter.Seq2[informer.List[site], error] {
					return func(yield func(informer.List[site], error) bool) {
						var first informer.Version
						from := ""
						for more := true; more; {
							more = false
							l, err := p.List(ctx) // anew for each page
							if err != nil {
								yield(informer.List[site]{}, err)
								return
							}
							if first == 0 {
								first = l.Version
							}
							page := informer.List[site]{Version: first}
							for _, s := range l.Items {
								if s.Name > from || from == "" {
									if len(page.Items) == 100 {
										more = true
										break
									}
									page.Items = append(page.Items, s)
								}
							}
							if len(page.Items) > 0 {
								from = page.Items[len(page.Items)-1].Name
							}
							if !yield(page, nil) {
								return
							}
						}
					}
				}}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := informertest.Cases[site]()
			i := slices.IndexFunc(all, func(k informertest.Case[site]) bool { return k.Name == c.noticed })
			require.GreaterOrEqual(t, i, 0, "there is no such case")
			client := connect(t, servers.borrow(t, outer).addr)
			message := dbtest.Failure(t, func(t testing.TB) { all[i].Run(t, subjectOf(t, client, c.change)) })
			assert.NotEmpty(t, message)
			t.Log(message)
		})
	}
}

// skipWithRace skips a test of broken variants, which are as broken without the race detector.
func skipWithRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("it runs without the race detector")
	}
}
