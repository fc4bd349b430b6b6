package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

func putInto(ctx context.Context, db *etcd.Backend, kind, key string, r backend.Record, fences ...backend.Fence) (backend.Record, error) {
	return db.Transact(ctx, kind, key, fences, func(backend.Record) (*backend.Record, error) { return &r, nil })
}

func remove(ctx context.Context, db *etcd.Backend, key string) (backend.Record, error) {
	return db.Transact(ctx, "app", key, nil, func(have backend.Record) (*backend.Record, error) {
		have.Deleted = true
		return &have, nil
	})
}

// watchEnd returns the error with which a watch ends, and its reports before that. It gives up when a test hangs.
func watchEnd(t testing.TB, db *etcd.Backend, kind string, after informer.Version) (reported []backend.Change, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for c, err := range db.Watch(ctx, kind, backend.Query{}, after) {
		if err != nil {
			return reported, err
		}
		reported = append(reported, c)
	}
	return reported, nil
}

// changes returns the first n changes that a watch tells.
func changes(t testing.TB, db *etcd.Backend, kind string, after informer.Version, n int) (reported []backend.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for c, err := range db.Watch(ctx, kind, backend.Query{}, after) {
		require.NoError(t, err)
		if c.Record.Key != "" {
			reported = append(reported, c.Record)
		}
		if len(reported) == n {
			break
		}
	}
	return reported
}

func list(t testing.TB, db *etcd.Backend, kind string) (keys []string, version informer.Version) {
	t.Helper()
	for page, err := range db.List(t.Context(), kind, backend.Query{}) {
		require.NoError(t, err)
		version = page.Version
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
	}
	return keys, version
}

func TestOpenRejectsUnusableConfig(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := connect(t, s.addr)
	_, err := c.Put(t.Context(), "later/layout", "2")
	require.NoError(t, err)
	for _, test := range []struct {
		cfg  etcd.Config
		want string
	}{
		{etcd.Config{Prefix: "a/"}, `Config.Prefix is "a/", must not end with a slash`},
		{etcd.Config{Prefix: "a/objects"}, `Config.Prefix is "a/objects", must not have the element objects`},
		{etcd.Config{Prefix: "fences/a"}, `Config.Prefix is "fences/a", must not have the element fences`},
		{etcd.Config{Prefix: "layout"}, `Config.Prefix is "layout", must not have the element layout`},
		{etcd.Config{Prefix: strings.Repeat("a", 257)}, "must not have more than 256 bytes"},
		{etcd.Config{History: -1}, "Config.History is -1, must not be negative"},
		{etcd.Config{Poll: -1}, "Config.Poll is -1ns, must not be negative"},
		{etcd.Config{MaxRequestBytes: 1}, "Config.MaxRequestBytes is 1, must not be less than 262144"},
		{etcd.Config{Prefix: "later"}, `open prefix "later": the keys have layout "2", this version of the library needs "1"`},
		{etcd.Config{Prefix: "typo", Existing: true}, `open prefix "typo": the key "typo/layout" is missing, and Config.Existing is set`},
	} {
		_, err := etcd.Open(t.Context(), c, test.cfg)
		require.ErrorContains(t, err, test.want)
		require.ErrorContains(t, err, "etcd: open")
	}
	require.PanicsWithValue(t, "etcd: Open called with a nil client", func() { _, _ = etcd.Open(t.Context(), nil, etcd.Config{}) })
	found, err := c.Get(t.Context(), "typo", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, found.Kvs)
	open(t, s.addr, etcd.Config{Prefix: "typo"})
	open(t, s.addr, etcd.Config{Prefix: "typo", Existing: true})
	down := connect(t, "127.0.0.1:1")
	_, err = etcd.Open(t.Context(), down, etcd.Config{})
	require.ErrorContains(t, err, "no endpoint answers: 127.0.0.1:1: ")
}

// One endpoint of a cluster may be down.
func TestOpenRequiresOneEndpoint(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	_, err := dbtest.Put(t.Context(), open(t, "127.0.0.1:1,"+s.addr, etcd.Config{}), "a", "1")
	require.NoError(t, err)
}

func TestEtcdVersionsWithUnreliableProgressAreRejected(t *testing.T) {
	t.Parallel()
	for version, right := range map[string]bool{
		"3.3.27": false, "3.4.30": false, "3.4.31": true, "3.5.0": false, "3.5.12": false, "3.5.13": true, "3.6.0": true,
		"3.6.0-rc.1": true, "3.7.3": true, "4.0.0": true, "2.3.8": false, "": false, "devel": false,
	} {
		err := etcd.CheckVersion(version)
		assert.Equal(t, right, err == nil, "%s: %v", version, err)
	}
}

func TestPrefixesAreDatabasesSharingVersions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	one, two := open(t, s.addr, etcd.Config{Prefix: "a"}), open(t, s.addr, etcd.Config{Prefix: "a/b"})
	first, err := dbtest.Put(t.Context(), one, "k", "1", backend.Fence{Lease: "shop", Term: 7})
	require.NoError(t, err)
	r, err := two.Get(t.Context(), "app", "k")
	require.NoError(t, err)
	assert.Zero(t, r)
	second, err := dbtest.Put(t.Context(), two, "k", "1", backend.Fence{Lease: "shop", Term: 6})
	require.NoError(t, err)
	assert.Greater(t, second.Version, first.Version)
}

// Kinds and keys that look alike stay separate, whatever they contain.
func TestHostileKindsAndKeysStaySeparate(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, etcd.Config{})
	kinds := []string{"a", "a/b", "a%2Fb", "a%b", "live", "a/live/b", "a/gone", "..", "a\\", "'\"; DROP TABLE x; --", "a b", "日本", "\x01", "a/", "/", "//"}
	keys := []string{"b", "/", "//", "live/b", "gone/b", "b/live/c", "\x01", "\x00", "a\x00b", "b'\"--", "\xff\xfe", "\xff", "%2F", "..", strings.Repeat("k", 1024)}
	for _, kind := range kinds {
		for _, key := range keys {
			_, err := putInto(t.Context(), db, kind, key, backend.Record{Meta: []byte("{}"), Value: []byte(kind + "|" + key)})
			require.NoError(t, err, "%q %q", kind, key)
		}
	}
	for _, kind := range kinds {
		n := 0
		for page, err := range db.List(t.Context(), kind, backend.Query{}) {
			require.NoError(t, err)
			last := ""
			for _, r := range page.Records {
				assert.Equal(t, kind+"|"+r.Key, string(r.Value))
				assert.Greater(t, r.Key, last)
				last = r.Key
				n++
			}
		}
		assert.Equal(t, len(keys), n, "%q", kind)
		for _, r := range changes(t, db, kind, 0, len(keys)) {
			assert.Equal(t, kind+"|"+r.Key, string(r.Value))
		}
		for _, key := range keys {
			n := 0
			for page, err := range db.List(t.Context(), kind, backend.Query{Prefix: key}) {
				require.NoError(t, err)
				for _, r := range page.Records {
					assert.True(t, strings.HasPrefix(r.Key, key), "%q is not under %q", r.Key, key)
					n++
				}
			}
			want := 0
			for _, other := range keys {
				if strings.HasPrefix(other, key) {
					want++
				}
			}
			assert.Equal(t, want, n, "prefix %q", key)
		}
	}
	// The engine refuses such a key. A direct caller of the backend stores it unchanged, or gets an error.
	_, err := dbtest.Put(t.Context(), db, strings.Repeat("k", 64<<10), "1")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, strings.Repeat("k", 1<<20), "1")
	require.ErrorIs(t, err, backend.ErrTooLarge)
}

func TestDamagedRecordIsNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	first, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = c.Put(t.Context(), "setpoint/objects/app/live/a", "\xff")
	require.NoError(t, err)
	_, err = db.Get(t.Context(), "app", "a")
	require.ErrorContains(t, err, `etcd: get app "a": the record "a" of version `)
	_, err = dbtest.Put(t.Context(), db, "a", "2")
	require.ErrorContains(t, err, `etcd: write app "a": the record "a" of version `)
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, `etcd: list app: the record "a" of version `)
	}
	_, err = watchEnd(t, db, "app", first.Version)
	require.ErrorContains(t, err, `etcd: watch app: the record "a" of version `)
	_, err = c.Put(t.Context(), "setpoint/fences/shop", "x")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "b", "1", backend.Fence{Lease: "shop", Term: 1})
	require.ErrorContains(t, err, `etcd: write app "b": the term of lease "shop": `)
	// The library ignores keys of other programs.
	_, err = c.Put(t.Context(), "setpoint/objects/other/readme", "hello")
	require.NoError(t, err)
	r, err := putInto(t.Context(), db, "other", "a", backend.Record{Meta: []byte("{}"), Value: []byte("1")})
	require.NoError(t, err)
	assert.Equal(t, []backend.Record{r}, changes(t, db, "other", 0, 1))
}

func TestLargestRecordCanBeWrittenAndDeleted(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, etcd.Config{})
	s := dbtest.Apps(t, db)
	most := db.Capabilities().MaxBytes - 64<<10 - 2000 // for the envelope
	large := store.Object[dbtest.App]{Key: strings.Repeat("k", backend.MaxKey), Value: dbtest.App{Image: strings.Repeat("x", most)}}
	o, err := s.Create(t.Context(), large)
	require.NoError(t, err)
	o.Finalizers = []string{"clean"}
	o, err = s.Update(t.Context(), o)
	require.NoError(t, err, "the value is the same, so there is room for a finalizer")
	_, err = s.Delete(t.Context(), o.Key)
	require.NoError(t, err)
	o, err = s.Get(t.Context(), o.Key)
	require.NoError(t, err)
	o.Finalizers = nil
	_, err = s.Update(t.Context(), o)
	require.NoError(t, err)
	_, err = s.Get(t.Context(), o.Key)
	require.ErrorIs(t, err, store.ErrNotFound)

	for _, size := range []int{most + 3000, db.Capabilities().MaxBytes, 3 << 20} {
		large := store.Object[dbtest.App]{Key: "large", Value: dbtest.App{Image: strings.Repeat("x", size)}}
		_, err = s.Create(t.Context(), large)
		require.ErrorIs(t, err, backend.ErrTooLarge)
		_, err = s.Get(t.Context(), "large")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// A server that takes less than it was configured here, and a client that sends less.
func TestSizeLimitErrorNamesTheLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := connect(t, s.addr, func(c *clientv3.Config) { c.MaxCallSendMsgSize = 10_000 })
	small, err := etcd.Open(t.Context(), client, etcd.Config{})
	require.NoError(t, err)
	generous := open(t, s.addr, etcd.Config{MaxRequestBytes: 1<<21 - 1<<16})
	for db, size := range map[*etcd.Backend]int{small: 20_000, generous: 1_700_000} {
		_, err = dbtest.Put(t.Context(), db, "a", strings.Repeat("x", size))
		require.ErrorIs(t, err, backend.ErrTooLarge)
		require.ErrorContains(t, err, `etcd: write app "a": the record is too large: a request of etcd is limited by --max-request-bytes, 1.5 MiB by default: `)
		r, err := db.Get(t.Context(), "app", "a")
		require.NoError(t, err)
		assert.Zero(t, r)
	}
}

// Every page of a list is from one snapshot, despite concurrent writes.
func TestPagedListIsASnapshot(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := connect(t, s.addr)
	cramped := connect(t, s.addr, func(c *clientv3.Config) { c.MaxCallRecvMsgSize = 300_000 })
	db, err := etcd.Open(t.Context(), cramped, etcd.Config{})
	require.NoError(t, err)
	const n = 400
	var ops []clientv3.Op
	for i := range n {
		value := "1"
		if i > 100 && i%10 == 0 {
			value = strings.Repeat("1", 100_000)
		}
		data, err := backend.Record{Meta: []byte("{}"), Value: []byte(value)}.MarshalBinary()
		require.NoError(t, err)
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("setpoint/objects/app/live/%04d", i), string(data)))
		if len(ops) == 10 {
			_, err = c.Txn(t.Context()).Then(ops...).Commit()
			require.NoError(t, err)
			ops = nil
		}
	}
	pages, keys := 0, 0
	var version informer.Version
	for page, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		if pages++; pages == 1 {
			version = page.Version
			_, err := dbtest.Put(t.Context(), db, "0390", "2")
			require.NoError(t, err)
			_, err = dbtest.Put(t.Context(), db, "9999", "2")
			require.NoError(t, err)
			_, err = remove(t.Context(), db, "0395")
			require.NoError(t, err)
		}
		assert.Equal(t, version, page.Version)
		for _, r := range page.Records {
			assert.Equal(t, fmt.Sprintf("%04d", keys), r.Key)
			assert.Equal(t, byte('1'), r.Value[0])
			assert.LessOrEqual(t, r.Version, version)
			keys++
		}
	}
	assert.Greater(t, pages, 3)
	assert.Equal(t, n, keys)
}

// A list that is overtaken by a compaction ends with an error, not with a shorter list.
func TestListExpiresIfCompactedMeanwhile(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	for i := range 150 {
		_, err := dbtest.Put(t.Context(), db, fmt.Sprintf("%04d", i), "1")
		require.NoError(t, err)
	}
	pages := 0
	var end error
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		if end = err; err == nil {
			pages++
			compact(t, c)
		}
	}
	assert.Equal(t, 1, pages)
	require.ErrorIs(t, end, backend.ErrExpired)
	require.ErrorContains(t, end, "etcd: list app: ")
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	r, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	reported, err := watchEnd(t, db, "app", r.Version+1)
	require.ErrorIs(t, err, backend.ErrExpired)
	require.ErrorContains(t, err, fmt.Sprintf("the cluster is at version %d, not at %d", r.Version, r.Version+1))
	assert.Empty(t, reported)

	// A prefix that was deleted and made again has nothing to do with the versions before.
	_, err = c.Delete(t.Context(), "setpoint/", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = watchEnd(t, db, "app", r.Version)
	require.ErrorContains(t, err, `etcd: watch app: the key "setpoint/layout" is gone`)
	again := open(t, s.addr, etcd.Config{})
	_, err = watchEnd(t, again, "app", r.Version)
	require.ErrorIs(t, err, backend.ErrExpired)
	require.ErrorContains(t, err, "the keys were created at version ")
}

func TestCompactedWatchExpires(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	first, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "a", "2")
	require.NoError(t, err)
	compact(t, c)
	for _, after := range []informer.Version{0, first.Version} {
		reported, err := watchEnd(t, db, "app", after)
		require.ErrorIs(t, err, backend.ErrExpired)
		require.ErrorContains(t, err, "are compacted")
		for _, c := range reported {
			assert.Empty(t, c.Record.Key)
		}
	}
	// From the list on, a watch goes.
	_, version := list(t, db, "app")
	r, err := dbtest.Put(t.Context(), db, "a", "3")
	require.NoError(t, err)
	assert.Equal(t, []backend.Record{r}, changes(t, db, "app", version, 1))
}

// A watch of a quiet kind receives bookmarks for writes of another handle to another kind, and of other programs.
func TestAnyClusterChangeCausesBookmark(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, other, c := open(t, s.addr, quick), open(t, s.addr, quick), connect(t, s.addr)
	_, version := list(t, db, "app")
	writes := []func() (informer.Version, error){
		func() (informer.Version, error) {
			r, err := putInto(t.Context(), db, "other", "a", backend.Record{})
			return r.Version, err
		},
		func() (informer.Version, error) {
			r, err := putInto(t.Context(), other, "other", "a", backend.Record{})
			return r.Version, err
		},
		func() (informer.Version, error) {
			r, err := c.Put(t.Context(), "foreign", "")
			return informer.Version(r.Header.Revision), err
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	want, err := writes[0]()
	require.NoError(t, err)
	for c, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		require.NoError(t, err)
		require.Empty(t, c.Record.Key)
		if c.Version < want {
			continue
		}
		if writes = writes[1:]; len(writes) == 0 {
			break
		}
		want, err = writes[0]()
		require.NoError(t, err)
	}
}

// A process that waits for its own write to another kind does not wait for Config.Poll.
func TestWatchSeesOwnHandlesWritesImmediately(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, etcd.Config{Poll: time.Hour})
	_, version := list(t, db, "app")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	write := func() informer.Version {
		r, err := putInto(t.Context(), db, "other", "a", backend.Record{})
		require.NoError(t, err)
		return r.Version
	}
	begin, rounds, want := time.Now(), 0, write()
	for c, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		require.NoError(t, err)
		if c.Version < want {
			continue
		}
		if rounds++; rounds == 10 {
			break
		}
		want = write()
	}
	require.Equal(t, 10, rounds)
	assert.Less(t, time.Since(begin), 10*time.Second, "without a wake-up it takes 25s")
}

// A server sends a long history in parts. The revisions that it reports in between are not bookmarks.
func TestNoBookmarkOvertakesChangesOfLongHistory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db := open(t, s.addr, quick)
	_, before := list(t, db, "app")
	const n = 1500
	versions := make([]informer.Version, n)
	var g sync.WaitGroup
	for w := range 10 {
		g.Go(func() { // writes a tenth
			for i := w; i < n; i += 10 {
				r, err := dbtest.Put(t.Context(), db, fmt.Sprint(i), "1")
				assert.NoError(t, err)
				versions[i] = r.Version
			}
		})
	}
	g.Wait()
	slices.Sort(versions)
	next := 0
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, before) {
		require.NoError(t, err)
		if c.Record.Key != "" {
			require.Equal(t, versions[next], c.Version)
			next++
		} else if next < n {
			require.Less(t, c.Version, versions[next], "a bookmark overtakes a later change")
		}
		if next == n {
			break
		}
	}
}

// Even if nothing happens in the whole cluster, the server replies, so a watch can distinguish it from a dead one.
func TestWatchOfIdleClusterContinues(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, quick)
	db.SetSilence(time.Second)
	_, version := list(t, db, "app")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, errEnough)
	defer cancel()
	bookmarks := 0
	var end error
	for c, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		if end = err; err == nil {
			bookmarks++
			require.Equal(t, version, c.Version)
		}
	}
	require.ErrorIs(t, end, errEnough)
	assert.Positive(t, bookmarks)
}

var errEnough = errors.New("enough")

// The quota is etcd's disk. When it is full, etcd rejects writes, loses nothing, and still serves reads.
func TestFullQuotaLosesNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(c *embed.Config) { c.QuotaBackendBytes = 4 << 20 })
	db, c := open(t, s.addr, quick), connect(t, s.addr)
	before, err := dbtest.Put(t.Context(), db, "before", "1")
	require.NoError(t, err)
	written := 0
	for err == nil {
		if _, err = dbtest.Put(t.Context(), db, "large", strings.Repeat("x", 500_000), backend.Fence{Lease: "shop", Term: uint64(written + 1)}); err == nil {
			written++
		}
	}
	require.ErrorContains(t, err, `etcd: write app "large": `)
	require.ErrorContains(t, err, "database space exceeded")
	_, err = remove(t.Context(), db, "before")
	require.ErrorContains(t, err, "database space exceeded", "a deletion writes a tombstone")
	r, err := db.Get(t.Context(), "app", "before")
	require.NoError(t, err)
	assert.Equal(t, before, r)
	keys, version := list(t, db, "app")
	assert.Equal(t, []string{"before", "large"}, keys)
	assert.Len(t, changes(t, db, "app", before.Version, written), written)

	_, err = c.Compact(t.Context(), int64(version))
	require.NoError(t, err)
	_, err = c.Defragment(t.Context(), s.addr)
	require.NoError(t, err)
	_, err = c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	// The write that has filled the quota failed, and may have happened.
	_, err = dbtest.Put(t.Context(), db, "large", "1", backend.Fence{Lease: "shop", Term: uint64(written + 1)})
	require.NoError(t, err)
	_, err = remove(t.Context(), db, "before")
	require.NoError(t, err)
}

func TestEndedContextReturnsItsCause(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, etcd.Config{})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
	for _, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		if err != nil {
			require.ErrorIs(t, err, gone)
		}
	}
	_, err := dbtest.Put(ctx, db, "a", "1")
	require.ErrorIs(t, err, gone)
}

func TestHostileStringsAreData(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, prefix := range []string{"setpoint", `it's a "prefix"`, "../a\\", "NUL \x00 and \xff"} {
		dbtest.HostileStrings(t, open(t, s.addr, etcd.Config{Prefix: prefix}))
	}
}
