package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// eventsOf returns the next n events of a watch that are no bookmarks, and the error that it ends with before that.
func eventsOf[T any](t testing.TB, source informer.ListWatcher[T], after informer.Version, n int) (got []informer.Event[T], err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range source.Watch(ctx, after) {
		if err != nil {
			return got, err
		}
		if e.Type != informer.Bookmark {
			got = append(got, e)
		}
		if len(got) == n {
			break
		}
	}
	return got, nil
}

// texts says what each event is, with its version since one.
func texts(events []informer.Event[site], since int64) (all []string) {
	for _, e := range events {
		text := fmt.Sprintf("%v %s.%d +%d", e.Type, e.Object.Name, e.Object.Rev, int64(e.Version)-since)
		if e.KeyOnly {
			text += " key only"
		}
		all = append(all, text)
	}
	return all
}

func put(t testing.TB, c *clientv3.Client, key, value string, ops ...clientv3.OpOption) int64 {
	t.Helper()
	res, err := c.Put(t.Context(), key, value, ops...)
	require.NoError(t, err)
	return res.Header.Revision
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, test := range map[string]func(t *testing.T, c *clientv3.Client, prefix string){
		"only the last event of a revision has its version":   lastEventHasVersion,
		"an expired lease deletes its keys in one revision":   leaseExpires,
		"a revision in fragments is one revision":             revisionInFragments,
		"a value without a key is missing, and is no absence": valueWithoutKeyIsMissing,
		"a version that the cluster has not reached":          futureVersionIsNewHistory,
		"an own write is reported, and seen at once":          ownWriteIsSeenAtOnce,
		"arguments that cannot work are refused":              badPrefixesAreRefused,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, s.addr), newPrefix()+"/") })
	}
}

// A key can be in a revision twice, if nested transactions that do not see each other write it.
func lastEventHasVersion(t *testing.T, c *clientv3.Client, prefix string) {
	p := sitesAt(t, c, prefix)
	from := put(t, c, prefix+"a", "1")
	alone := func(op clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, []clientv3.Op{op}, nil) }
	at := func(name string) string { return prefix + name }
	for _, ops := range [][]clientv3.Op{
		{clientv3.OpPut(at("a"), "2"), clientv3.OpPut(at("b"), "1"), clientv3.OpPut("other/key", ""), clientv3.OpPut(at("c"), "1")},
		{clientv3.OpPut("other/key", "")},
		{alone(clientv3.OpPut(at("a"), "3")), alone(clientv3.OpDelete(at("a")))}, // its last state is not the one before
		{alone(clientv3.OpPut(at("new"), "1")), alone(clientv3.OpDelete(at("new")))},
		{clientv3.OpPut(at("b"), "5")},
		{clientv3.OpPut(at("b"), "bad")},
		{clientv3.OpDelete(prefix, clientv3.WithPrefix())},
	} {
		_, err := c.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
	}
	want := []struct {
		text string
		of   int64 // which transaction it belongs to
	}{
		{"Modified a.2 +0", 1}, {"Added b.1 +0", 1}, {"Added c.1 +1", 1},
		{"Modified a.3 +2", 3}, {"Deleted a.0 +3 key only", 3},
		{"Added new.1 +3", 4}, {"Deleted new.0 +4 key only", 4},
		{"Modified b.5 +5", 5},
		{"Unreadable b.0 +6", 6},
		{"Deleted b.0 +6 key only", 7}, {"Deleted c.1 +7", 7},
	}
	got, err := eventsOf(t, p, informer.Version(from), len(want))
	require.NoError(t, err)
	all := texts(got, from)
	for i, w := range want {
		assert.Equal(t, w.text, all[i])
	}
	for _, e := range got[:len(got)-1] { // each version that an event has is one to go on from: no event after it is missed
		rest, err := eventsOf(t, p, e.Version, 1)
		require.NoError(t, err)
		for _, w := range want {
			if w.of > int64(e.Version)-from {
				assert.Equal(t, []string{w.text}, texts(rest, from), "after %v", e)
				break
			}
		}
	}
}

func leaseExpires(t *testing.T, c *clientv3.Client, prefix string) {
	p := sitesAt(t, c, prefix)
	lease, err := c.Grant(t.Context(), 60)
	require.NoError(t, err)
	const n = 300
	for i := range n {
		put(t, c, fmt.Sprintf("%s%03d", prefix, i), "1", clientv3.WithLease(lease.ID))
	}
	l, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Items, n)
	_, err = c.Revoke(t.Context(), lease.ID) // as its end does
	require.NoError(t, err)
	got, err := eventsOf(t, p, l.Version, n)
	require.NoError(t, err)
	for i, e := range got {
		assert.Equal(t, informer.Deleted, e.Type)
		assert.False(t, e.KeyOnly)
		assert.Equal(t, 1, e.Object.Rev)
		assert.Equal(t, i == n-1, e.Version == l.Version+1, "event %d is of version %d", i, e.Version)
	}
}

// A response that is larger than a request may be comes in several fragments.
func revisionInFragments(t *testing.T, c *clientv3.Client, prefix string) {
	type blob struct {
		Name string
		Size int
	}
	p, err := etcd.NewPrefix(t.Context(), c, func(kv *mvccpb.KeyValue) (blob, error) {
		return blob{strings.TrimPrefix(string(kv.Key), prefix), len(kv.Value)}, nil
	}, etcd.PrefixConfig{Prefix: prefix})
	require.NoError(t, err)
	const n, size = 20, 500 << 10
	var from int64
	for i := range n {
		from = put(t, c, fmt.Sprintf("%s%02d", prefix, i), strings.Repeat("x", size))
	}
	_, err = c.Delete(t.Context(), prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	put(t, c, prefix+"next", "")
	got, err := eventsOf(t, p, informer.Version(from), n+1)
	require.NoError(t, err)
	for i, e := range got[:n] {
		assert.Equal(t, blob{fmt.Sprintf("%02d", i), size}, e.Object)
		assert.Equal(t, i == n-1, e.Version == informer.Version(from+1), "event %d is of version %d", i, e.Version)
	}
	assert.Equal(t, informer.Version(from+2), got[n].Version)
}

func valueWithoutKeyIsMissing(t *testing.T, c *clientv3.Client, prefix string) {
	for name, decode := range map[string]func(kv *mvccpb.KeyValue) (site, error){
		"that returns no key": func(kv *mvccpb.KeyValue) (site, error) {
			if string(kv.Value) != "1" {
				return site{}, errors.New("it is not 1")
			}
			return siteOf(prefix)(kv)
		},
		"that panics": func(kv *mvccpb.KeyValue) (site, error) {
			return site{Name: string(kv.Key), Rev: int(kv.Value[0] - '0')}, must(kv)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := etcd.NewPrefix(t.Context(), c, decode, etcd.PrefixConfig{Prefix: prefix})
			require.NoError(t, err)
			put(t, c, prefix+"a", "1")
			from := put(t, c, prefix+"b", "1")
			put(t, c, prefix+"a", "")
			_, err = eventsOf(t, p, informer.Version(from), 1)
			require.ErrorIs(t, err, informer.ErrExpired)
			require.NotErrorIs(t, err, informer.ErrNewHistory)
			l, err := p.List(t.Context())
			require.NoError(t, err)
			assert.Len(t, l.Items, 1)
			assert.Empty(t, l.Unread)
			require.Len(t, l.Missing, 1)
			assert.ErrorContains(t, l.Missing[0], fmt.Sprintf("the value of %q", prefix+"a"))
		})
	}
}

// must panics if there is no value.
func must(kv *mvccpb.KeyValue) error {
	if len(kv.Value) == 0 {
		panic("no value")
	}
	return nil
}

func futureVersionIsNewHistory(t *testing.T, c *clientv3.Client, prefix string) {
	p := sitesAt(t, c, prefix)
	now, err := p.LatestVersion(t.Context())
	require.NoError(t, err)
	_, err = eventsOf(t, p, now+1000, 1)
	require.ErrorIs(t, err, informer.ErrNewHistory)
	put(t, c, prefix+"a", "1")
	got, err := eventsOf(t, p, 0, 1) // before the first change
	require.NoError(t, err)
	assert.Equal(t, "a", got[0].Object.Name)
}

func ownWriteIsSeenAtOnce(t *testing.T, c *clientv3.Client, prefix string) {
	p, err := etcd.NewPrefix(t.Context(), c, siteOf(prefix), etcd.PrefixConfig{Prefix: prefix, Poll: time.Hour})
	require.NoError(t, err)
	other, err := etcd.NewPrefix(t.Context(), c, siteOf("x"), etcd.PrefixConfig{Prefix: "x"})
	require.NoError(t, err)
	assert.True(t, p.Clock().Is(other.Clock()))
	inf, err := informer.New(p, siteName, informer.Config{})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := &dbtest.Reported{Context: ctx}
	for range 3 {
		revision := put(t, c, "another/key", "") // the prefix itself is idle
		begin := time.Now()
		p.Wrote(w, revision)
		require.NoError(t, inf.WaitForVersion(ctx, informer.Version(revision)))
		assert.Less(t, time.Since(begin), 2*time.Second) // the progress that a watch requests by itself comes later
		last := w.Writes[len(w.Writes)-1]
		assert.Equal(t, uint64(revision), last.Version)
		assert.True(t, last.Clock.Is(p.Clock()))
		revision = put(t, c, prefix+"a", "1")
		require.NoError(t, inf.CatchUp(ctx))
		assert.GreaterOrEqual(t, inf.Version(), informer.Version(revision))
	}
	p.Wrote(ctx, -1) // does nothing
}

func badPrefixesAreRefused(t *testing.T, c *clientv3.Client, prefix string) {
	_, err := etcd.NewPrefix(t.Context(), c, siteOf(prefix), etcd.PrefixConfig{Poll: -1})
	require.EqualError(t, err, "etcd: new prefix: PrefixConfig.Prefix is empty; PrefixConfig.Poll is -1ns, must not be negative")
	nowhere := connect(t, servertest.FreeAddr(t))
	_, err = etcd.NewPrefix(t.Context(), nowhere, siteOf(prefix), etcd.PrefixConfig{Prefix: prefix})
	require.ErrorContains(t, err, "no endpoint answers")
	assert.Panics(t, func() { _, _ = etcd.NewPrefix[site](t.Context(), c, nil, etcd.PrefixConfig{Prefix: prefix}) })
}

// grant lets a user with a password read a range.
func grant(t *testing.T, root *clientv3.Client, name, from, to string) {
	t.Helper()
	ctx := t.Context()
	_, err := root.RoleAdd(ctx, name)
	require.NoError(t, err)
	if from != "" {
		_, err = root.RoleGrantPermission(ctx, name, from, to, clientv3.PermissionType(clientv3.PermRead))
		require.NoError(t, err)
	}
	_, err = root.UserAdd(ctx, name, "secret")
	require.NoError(t, err)
	_, err = root.UserGrantRole(ctx, name, name)
	require.NoError(t, err)
}

func asUser(name string) func(c *clientv3.Config) {
	return func(c *clientv3.Config) { c.Username, c.Password = name, "secret" }
}

func TestPrefixNeedsPermissionForItsRangeAndNoticesItsEnd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	root, ctx := connect(t, s.addr), t.Context()
	grant(t, root, "root", "", "")
	grant(t, root, "app", "apps/", clientv3.GetPrefixRangeEnd("apps/"))
	_, err := root.AuthEnable(ctx)
	require.NoError(t, err)
	root = connect(t, s.addr, asUser("root"))
	put(t, root, "apps/a", "1")
	app := connect(t, s.addr, asUser("app"))
	_, err = etcd.NewPrefix(ctx, app, siteOf("app"), etcd.PrefixConfig{Prefix: "app"})
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	p, err := etcd.NewPrefix(ctx, app, siteOf("apps/"), etcd.PrefixConfig{Prefix: "apps/"})
	require.NoError(t, err)
	p.SetCheck(50 * time.Millisecond)
	l, err := p.List(ctx)
	require.NoError(t, err)
	require.Len(t, l.Items, 1)
	ended := make(chan error, 1)
	seen := make(chan string, 10)
	watching, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	go func() { // ends with the watch; the test waits for it
		for e, err := range p.Watch(watching, l.Version) {
			if err != nil {
				ended <- err
				return
			}
			if e.Type != informer.Bookmark {
				seen <- e.Object.Name
			}
		}
	}()
	put(t, root, "apps/b", "1")
	assert.Equal(t, "b", <-seen)
	_, err = root.RoleRevokePermission(ctx, "app", "apps/", clientv3.GetPrefixRangeEnd("apps/"))
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, rpctypes.ErrPermissionDenied)
	_, err = eventsOf(t, p, l.Version, 1)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.NotErrorIs(t, err, informer.ErrExpired)
	_, err = p.List(ctx)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	_, err = root.RoleGrantPermission(ctx, "app", "apps/", clientv3.GetPrefixRangeEnd("apps/"), clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	got, err := eventsOf(t, p, l.Version, 1)
	require.NoError(t, err)
	assert.Equal(t, "b", got[0].Object.Name)
}

// Another cluster at the same address has fewer revisions than the first one, or more. A cache follows it without help.
func TestPrefixFollowsAnotherClusterAtTheSameAddress(t *testing.T) {
	t.Parallel()
	addr := servertest.FreeAddr(t)
	start := func(token string) *embed.Etcd {
		m := alone(t.TempDir())
		m.Client = addr
		c := m.config()
		c.InitialClusterToken = token
		e, err := embed.StartEtcd(c)
		require.NoError(t, err)
		<-e.Server.ReadyNotify()
		return e
	}
	now := start("one")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := connect(t, addr)
	inf, err := informer.New(sitesAt(t, c, "sites/"), siteName, informer.Config{})
	require.NoError(t, err)
	synced := make(chan string, 100)
	_, err = inf.AddHandler(informer.Handler[string, site]{
		OnAdd: func(s site, _ bool) { synced <- s.Name },
	})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	for round, writes := range []int{30, 5, 60} {
		if round > 0 {
			now.Close()
			now = start(fmt.Sprint(round))
		}
		writer := connect(t, addr)
		for i := range writes {
			put(t, writer, fmt.Sprintf("sites/%d-%d", round, i%3), fmt.Sprint(i))
		}
		last := fmt.Sprint("last ", round)
		put(t, writer, "sites/"+last, "1")
		for name := ""; name != last; {
			select {
			case name = <-synced:
			case <-ctx.Done():
				t.Fatalf("the cache has not reached cluster %d", round)
			}
		}
		require.NoError(t, inf.CatchUp(ctx))
		assert.Equal(t, 4, inf.Indexer().Len(), "what the cluster before had is deleted")
	}
	now.Close()
}

// A learner answers neither reads nor watches. A client that has its address too finds the other member.
func TestPrefixGoesOnBesideLearner(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	start := func(m member, state string) {
		c := m.config()
		c.ClusterState = state
		e, err := embed.StartEtcd(c)
		require.NoError(t, err)
		t.Cleanup(e.Close)
		select {
		case <-e.Server.ReadyNotify():
		case <-ctx.Done():
			t.Fatal("the server is not ready")
		}
	}
	one := member{Dir: t.TempDir(), Name: "one", Client: servertest.FreeAddr(t), Peer: servertest.FreeAddr(t)}
	learner := member{Dir: t.TempDir(), Name: "learner", Client: servertest.FreeAddr(t), Peer: servertest.FreeAddr(t)}
	one.Cluster = "one=http://" + one.Peer
	start(one, embed.ClusterStateFlagNew)
	c := connect(t, one.Client)
	_, err := c.MemberAddAsLearner(ctx, []string{"http://" + learner.Peer})
	require.NoError(t, err)
	learner.Cluster = one.Cluster + ",learner=http://" + learner.Peer
	start(learner, embed.ClusterStateFlagExisting)
	var informers []*informer.Informer[string, site]
	for _, addrs := range []string{one.Client + "," + learner.Client, learner.Client + "," + one.Client} {
		inf, err := informer.New(sitesAt(t, connect(t, addrs), "sites/"), siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		dbtest.Follow(t, inf)
		informers = append(informers, inf)
	}
	for i := range 50 {
		put(t, c, fmt.Sprint("sites/", i%7), fmt.Sprint(i))
	}
	for _, inf := range informers {
		for inf.CatchUp(ctx) != nil { // an attempt may meet the learner
			require.NoError(t, ctx.Err())
		}
		assert.Equal(t, 7, inf.Indexer().Len())
		s, _ := inf.Get("0")
		assert.Equal(t, 49, s.Rev)
	}
}
