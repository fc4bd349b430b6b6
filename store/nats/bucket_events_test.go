package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// watched is a watch that a test reads event by event.
type watched struct {
	t      testing.TB
	events chan informer.Event[site]
	ended  chan error // has the error that the watch has ended with
}

// watchBucket watches until the test ends.
func watchBucket(t testing.TB, b informer.ListWatcher[site], after informer.Version) *watched {
	t.Helper()
	w := &watched{t, make(chan informer.Event[site], 10_000), make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() { // ends with the watch; the cleanup waits for it
		defer close(done)
		for e, err := range b.Watch(ctx, after) {
			if err != nil {
				w.ended <- err
				return
			}
			w.events <- e
		}
	}()
	return w
}

// next returns the next n events that are no bookmarks, as texts.
func (w *watched) next(n int) (all []string) {
	w.t.Helper()
	for len(all) < n {
		select {
		case e := <-w.events:
			if e.Type != informer.Bookmark {
				all = append(all, text(e))
			}
		case err := <-w.ended:
			w.t.Fatalf("the watch has ended after %v: %v", all, err)
		case <-time.After(30 * time.Second):
			w.t.Fatalf("only %v", all)
		}
	}
	return all
}

// end returns the error that the watch ends with.
func (w *watched) end() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(30 * time.Second):
		w.t.Fatal("the watch goes on")
		return nil
	}
}

// text says what an event is.
func text(e informer.Event[site]) string {
	s := fmt.Sprintf("%v %s.%d @%d", e.Type, e.Object.Name, e.Object.Rev, e.Version)
	if e.KeyOnly {
		s += " key only"
	}
	return s
}

// listed returns a list of a bucket as texts, and its version.
func listed(t testing.TB, b informer.ListWatcher[site]) (all map[string]int, version informer.Version) {
	t.Helper()
	l, err := b.List(t.Context())
	require.NoError(t, err)
	all = map[string]int{}
	for _, s := range l.Items {
		all[s.Name] = s.Rev
	}
	return all, l.Version
}

func putSite(t testing.TB, kv jetstream.KeyValue, name, value string) informer.Version {
	t.Helper()
	revision, err := kv.PutString(t.Context(), name, value)
	require.NoError(t, err)
	return informer.Version(revision)
}

// bucketWith returns the sites of a bucket with a configuration of its own.
func bucketWith(t testing.TB, js jetstream.JetStream, cfg nats.BucketConfig) *nats.Bucket[site] {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := nats.NewBucket(t.Context(), js, decodeSiteRev, cfg)
	require.NoError(t, err)
	return b
}

// impatient looks for silent changes sooner than the default.
func impatient(bucket string) nats.BucketConfig {
	return nats.BucketConfig{Bucket: bucket, Poll: 10 * time.Millisecond, Verify: 100 * time.Millisecond}
}

// streamOf returns the stream of a bucket.
func streamOf(t testing.TB, js jetstream.JetStream, kv jetstream.KeyValue) jetstream.Stream {
	t.Helper()
	s, err := js.Stream(t.Context(), "KV_"+kv.Bucket())
	require.NoError(t, err)
	return s
}

func TestBucket(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	for name, test := range map[string]func(t *testing.T, js jetstream.JetStream){
		"guarantees 1, 2, 5: revisions are versions, and a deletion has its key": revisionsAreVersions,
		"guarantee 2: an expired key with a marker is deleted":                   markedKeyExpires,
		"guarantee 3: an older value that comes back during a list":              olderValueComesBackDuringList,
		"guarantee 4: a value without a key is missing, and is no absence":       bucketValueWithoutKeyIsMissing,
		"guarantee 6: a purged subject":                                          purgedSubjectIsDeleted,
		"guarantee 6: a purged subject while others write":                       purgedSubjectIsDeletedDuringWrites,
		"guarantee 6: a key that expires without a marker":                       unmarkedKeyExpires,
		"guarantee 6: a full bucket that discards old keys":                      oldKeyIsDiscarded,
		"guarantee 6: a marker that vanished between two watches":                markerVanishesBetweenWatches,
		"guarantee 6: many keys at once":                                         everythingIsPurged,
		"guarantee 7: an older value that comes back":                            olderValueComesBack,
		"guarantee 7: an older marker that comes back":                           olderMarkerComesBack,
		"guarantee 7: a deleted message":                                         deletedMessageUncoversOlderValue,
		"guarantee 8: a bucket that is created again":                            bucketIsCreatedAgain,
		"guarantee 8: a version that the bucket has not reached":                 futureVersionIsNewHistory,
		"guarantee 10: a lost and a stuck consumer":                              consumerIsLost,
		"a watch from an unknown version ends once":                              unknownVersionExpires,
		"two consumers that know different keys at one version":                  consumersDiffer,
		"an own write is reported":                                               ownWriteIsReported,
		"a bucket with sources has its own revisions":                            sourcedBucketNumbersAnew,
		"a mirror has the revisions of its origin":                               mirrorHasRevisionsOfOrigin,
		"a full bucket refuses deletions":                                        fullBucketIsRead,
		"arguments that cannot work are refused":                                 badBucketsAreRefused,
		"silent changes are announced in the log":                                silencesAreLogged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, connect(t, url))
		})
	}
}

func revisionsAreVersions(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	b := sitesIn(t, js, kv.Bucket())
	w := watchBucket(t, b, 0)
	a := putSite(t, kv, "a", "1")
	assert.Equal(t, []string{fmt.Sprintf("Added a.1 @%d", a)}, w.next(1))
	revision, err := kv.Update(ctx, "a", []byte("2"), uint64(a)) // read each event before the next write replaces it
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprintf("Modified a.2 @%d", revision)}, w.next(1))
	x, err := kv.Create(ctx, "x.y/z", []byte("3"))
	require.NoError(t, err)
	require.NoError(t, kv.Delete(ctx, "a"))
	assert.Equal(t, []string{fmt.Sprintf("Added x.y/z.3 @%d", x), fmt.Sprintf("Deleted a.0 @%d key only", x+1)}, w.next(2))
	require.NoError(t, kv.Delete(ctx, "a"), "which deletes nothing")
	require.NoError(t, kv.Purge(ctx, "x.y/z"))
	assert.Equal(t, []string{fmt.Sprintf("Deleted x.y/z.0 @%d key only", x+3)}, w.next(1))
	again := putSite(t, kv, "a", "bad")
	assert.Equal(t, []string{fmt.Sprintf("Unreadable a.0 @%d", again)}, w.next(1))
	require.NoError(t, kv.Delete(ctx, "a"))
	assert.Equal(t, []string{fmt.Sprintf("Deleted a.0 @%d key only", again+1)}, w.next(1))
	now, err := b.LatestVersion(ctx)
	require.NoError(t, err)
	assert.Equal(t, again+1, now)
	_, version := listed(t, b)
	assert.Equal(t, now, version)
}

func markedKeyExpires(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{LimitMarkerTTL: time.Second}), t.Context()
	w := watchBucket(t, sitesIn(t, js, kv.Bucket()), 0)
	a, err := kv.Create(ctx, "a", []byte("1"), jetstream.KeyTTL(time.Second))
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprintf("Added a.1 @%d", a), fmt.Sprintf("Deleted a.0 @%d key only", a+1)}, w.next(2))
	for streamState(t, js, kv).NumSubjects > 0 { // until the marker has vanished
		require.NoError(t, ctx.Err())
	}
	b := putSite(t, kv, "a", "2")
	assert.Equal(t, []string{fmt.Sprintf("Added a.2 @%d", b)}, w.next(1), "nothing was reported for the marker")
}

func streamState(t testing.TB, js jetstream.JetStream, kv jetstream.KeyValue) jetstream.StreamState {
	t.Helper()
	return streamOf(t, js, kv).CachedInfo().State
}

func bucketValueWithoutKeyIsMissing(t *testing.T, js jetstream.JetStream) {
	for name, decode := range map[string]func(e jetstream.KeyValueEntry) (site, error){
		"that returns no key": func(e jetstream.KeyValueEntry) (site, error) {
			if string(e.Value()) != "1" {
				return site{}, errors.New("it is not 1")
			}
			return decodeSiteRev(e)
		},
		"that panics": func(e jetstream.KeyValueEntry) (site, error) {
			return site{Name: e.Key(), Rev: int(e.Value()[0] - '0')}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			kv := newBucket(t, js, jetstream.KeyValueConfig{})
			b, err := nats.NewBucket(t.Context(), js, decode, nats.BucketConfig{Bucket: kv.Bucket()})
			require.NoError(t, err)
			putSite(t, kv, "a", "1")
			from := putSite(t, kv, "b", "1")
			putSite(t, kv, "a", "")
			err = watchBucket(t, b, from).end()
			require.ErrorIs(t, err, informer.ErrExpired)
			require.NotErrorIs(t, err, informer.ErrNewHistory)
			l, err := b.List(t.Context())
			require.NoError(t, err)
			assert.Len(t, l.Items, 1)
			assert.Empty(t, l.Unread)
			require.Len(t, l.Missing, 1)
			assert.ErrorContains(t, l.Missing[0], `the value of "a" of version 3`)
			require.NoError(t, kv.Delete(t.Context(), "b"))
			err = watchBucket(t, b, l.Version).end()
			require.ErrorIs(t, err, informer.ErrExpired)
		})
	}
}

func purgedSubjectIsDeleted(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{})
	for _, name := range []string{"a", "b", "c"} {
		putSite(t, kv, name, "1")
	}
	b := sitesIn(t, js, kv.Bucket())
	_, version := listed(t, b)
	w := watchBucket(t, b, version)
	require.NoError(t, streamOf(t, js, kv).Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+kv.Bucket()+".b")))
	assert.Equal(t, []string{"Deleted b.0 @3 key only"}, w.next(1))
	all, version := listed(t, b)
	assert.Equal(t, map[string]int{"a": 1, "c": 1}, all)
	assert.Equal(t, informer.Version(3), version)
	putSite(t, kv, "b", "2")
	assert.Equal(t, []string{"Added b.2 @4"}, w.next(1))
}

func purgedSubjectIsDeletedDuringWrites(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	putSite(t, kv, "victim", "1")
	b := sitesIn(t, js, kv.Bucket())
	_, version := listed(t, b)
	w := watchBucket(t, b, version)
	done := make(chan struct{})
	deleted := make(chan struct{})
	go func() { // writes until the deletion is seen, also new keys; the test waits for it
		defer close(done)
		for i := range 1_000_000 {
			select {
			case <-deleted:
				return
			default:
			}
			if _, err := kv.PutString(ctx, fmt.Sprint("key", i%5000), "1"); err != nil {
				return
			}
		}
	}()
	w.next(100)
	require.NoError(t, streamOf(t, js, kv).Purge(ctx, jetstream.WithPurgeSubject("$KV."+kv.Bucket()+".victim")))
	for {
		if e := w.next(1)[0]; strings.HasPrefix(e, "Deleted") {
			assert.Contains(t, e, "Deleted victim.0")
			break
		}
	}
	close(deleted)
	<-done
}

func unmarkedKeyExpires(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{TTL: 500 * time.Millisecond})
	w := watchBucket(t, sitesIn(t, js, kv.Bucket()), 0)
	putSite(t, kv, "a", "1")
	require.NoError(t, kv.Delete(t.Context(), "gone"))
	assert.Equal(t, []string{"Added a.1 @1", "Deleted a.0 @2 key only"}, w.next(2))
}

func oldKeyIsDiscarded(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{})
	cfg := streamOf(t, js, kv).CachedInfo().Config
	cfg.Discard, cfg.MaxMsgs = jetstream.DiscardOld, 3
	_, err := js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	w := watchBucket(t, sitesIn(t, js, kv.Bucket()), 0)
	for _, name := range []string{"a", "b", "c"} {
		putSite(t, kv, name, "1")
	}
	w.next(3)
	putSite(t, kv, "d", "1")
	assert.Equal(t, []string{"Added d.1 @4", "Deleted a.0 @4 key only"}, w.next(2))
}

// The connection of a consumer is away while a key is deleted, and while its marker is removed.
func markerVanishesBetweenWatches(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	putSite(t, kv, "a", "1")
	from := putSite(t, kv, "b", "1")
	far := connect(t, js.Conn().ConnectedUrl())
	b := sitesIn(t, far, kv.Bucket())
	_, version := listed(t, b)
	require.Equal(t, from, version)
	require.NoError(t, kv.Delete(ctx, "a"))
	require.NoError(t, kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(-1)))
	require.EqualValues(t, 1, streamState(t, js, kv).NumSubjects)
	assert.Equal(t, []string{fmt.Sprintf("Deleted a.0 @%d key only", from+1)}, watchBucket(t, b, from).next(1))
}

func everythingIsPurged(t *testing.T, js jetstream.JetStream) {
	for _, n := range []int{10, 1500} { // one by one, or by a list
		kv := newBucket(t, js, jetstream.KeyValueConfig{})
		for i := range n {
			putSite(t, kv, fmt.Sprint(i), "1")
		}
		inf, err := informer.New(sitesIn(t, js, kv.Bucket()), siteName, informer.Config{})
		require.NoError(t, err)
		dbtest.Follow(t, inf)
		require.Equal(t, n, inf.Indexer().Len())
		require.NoError(t, streamOf(t, js, kv).Purge(t.Context()))
		empty(t, inf)
	}
}

// empty returns when a cache is empty.
func empty(t testing.TB, inf *informer.Informer[string, site]) {
	t.Helper()
	require.Eventually(t, func() bool { return inf.Indexer().Len() == 0 }, 30*time.Second, time.Millisecond)
}

// publishWithTTL publishes a value that expires by itself.
func publishWithTTL(t testing.TB, js jetstream.JetStream, kv jetstream.KeyValue, name, value string) {
	t.Helper()
	m := natsgo.NewMsg("$KV." + kv.Bucket() + "." + name)
	m.Data = []byte(value)
	_, err := js.PublishMsg(t.Context(), m, jetstream.WithMsgTTL(time.Second))
	require.NoError(t, err)
}

func olderValueComesBack(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, History: 5})
	b := bucketWith(t, js, impatient(kv.Bucket()))
	w := watchBucket(t, b, 0)
	putSite(t, kv, "a", "1")
	publishWithTTL(t, js, kv, "a", "2")
	assert.Equal(t, []string{"Added a.1 @1", "Modified a.2 @2", "Modified a.1 @2"}, w.next(3))
	all, _ := listed(t, b)
	assert.Equal(t, map[string]int{"a": 1}, all)
	putSite(t, kv, "a", "3")
	assert.Equal(t, []string{"Modified a.3 @3"}, w.next(1))
}

// A key with a TTL is created where another one was deleted. When it has expired, the marker of that deletion counts again.
func olderMarkerComesBack(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, History: 5})
	w := watchBucket(t, bucketWith(t, js, impatient(kv.Bucket())), 0)
	putSite(t, kv, "a", "1")
	require.NoError(t, kv.Delete(t.Context(), "a"))
	_, err := kv.Create(t.Context(), "a", []byte("2"), jetstream.KeyTTL(time.Second))
	require.NoError(t, err)
	assert.Equal(t, []string{"Added a.1 @1", "Deleted a.0 @2 key only", "Added a.2 @3", "Deleted a.0 @3 key only"}, w.next(4))
}

// permitDeletions lets single messages of an empty bucket be deleted.
func permitDeletions(t *testing.T, js jetstream.JetStream, kv jetstream.KeyValue) jetstream.KeyValue {
	t.Helper()
	cfg := streamOf(t, js, kv).CachedInfo().Config
	require.NoError(t, js.DeleteStream(t.Context(), cfg.Name))
	cfg.DenyDelete = false
	_, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	return kv
}

// The last value of a key is removed after the server has decided which messages a list gets. The key exists all the time.
func olderValueComesBackDuringList(t *testing.T, js jetstream.JetStream) {
	kv := permitDeletions(t, js, newBucket(t, js, jetstream.KeyValueConfig{History: 5}))
	putSite(t, kv, "a", "1")
	last := putSite(t, kv, "a", "2")
	putSite(t, kv, "b", "1")
	b := sitesIn(t, js, kv.Bucket())
	remove := sync.OnceFunc(func() { require.NoError(t, streamOf(t, js, kv).DeleteMsg(t.Context(), uint64(last))) })
	b.AfterConsumer(remove)
	all, _ := listed(t, b)
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, all)
}

func deletedMessageUncoversOlderValue(t *testing.T, js jetstream.JetStream) {
	kv := permitDeletions(t, js, newBucket(t, js, jetstream.KeyValueConfig{History: 5}))
	w := watchBucket(t, bucketWith(t, js, impatient(kv.Bucket())), 0)
	putSite(t, kv, "a", "1")
	putSite(t, kv, "a", "bad")
	putSite(t, kv, "a", "3")
	w.next(3)
	require.NoError(t, streamOf(t, js, kv).DeleteMsg(t.Context(), 3))
	assert.Equal(t, []string{"Unreadable a.0 @3"}, w.next(1))
	require.NoError(t, streamOf(t, js, kv).DeleteMsg(t.Context(), 2))
	assert.Equal(t, []string{"Modified a.1 @3"}, w.next(1))
}

// A bucket is deleted and created again, with fewer, as many, or more revisions. A cache follows it without help, and a watch that begins
// later too.
func bucketIsCreatedAgain(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	cfg := streamOf(t, js, kv).CachedInfo().Config
	b := sitesIn(t, js, kv.Bucket())
	inf, err := informer.New(b, siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	for i := range 10 {
		putSite(t, kv, fmt.Sprint("first", i), "1")
	}
	dbtest.Follow(t, inf)
	for round, writes := range []int{5, 5, 30, 10} {
		_, version := listed(t, b)
		w := watchBucket(t, b, version)
		_, between := listed(t, b) // a consumer that has only listed
		require.NoError(t, js.DeleteStream(ctx, cfg.Name))
		createEventually(t, js, cfg)
		for i := range writes {
			putSite(t, kv, fmt.Sprintf("again%d-%d", round, i%3), fmt.Sprint(i))
		}
		err := w.end()
		if !errors.Is(err, jetstream.ErrStreamNotFound) { // it asked although there was none
			require.ErrorIs(t, err, informer.ErrNewHistory)
		}
		require.ErrorIs(t, watchBucket(t, b, between).end(), informer.ErrNewHistory)
		want, _ := listed(t, b)
		require.Len(t, want, 3)
		require.Eventually(t, func() bool {
			got := map[string]int{}
			for name, s := range inf.Indexer().All() {
				got[name] = s.Rev
			}
			return assert.ObjectsAreEqual(want, got)
		}, 30*time.Second, time.Millisecond)
	}
}

func futureVersionIsNewHistory(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{})
	b := sitesIn(t, js, kv.Bucket())
	require.ErrorIs(t, watchBucket(t, b, 1000).end(), informer.ErrNewHistory)
}

func consumerIsLost(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	stream := streamOf(t, js, kv)
	w := watchBucket(t, sitesIn(t, js, kv.Bucket()), 0)
	putSite(t, kv, "kept", "1")
	w.next(1)
	for i, hurt := range []func(name string) error{
		func(name string) error { return stream.DeleteConsumer(ctx, name) },
		func(name string) error {
			_, err := stream.PauseConsumer(ctx, name, time.Now().Add(time.Hour))
			return err
		},
	} {
		for name := range stream.ConsumerNames(ctx).Name() {
			require.NoError(t, hurt(name))
		}
		seen := make(chan struct{})
		go func() { // ends when the watch goes on
			defer close(seen)
			w.next(1)
		}()
		for n := 0; ; n++ { // the key is replaced all the time
			select {
			case <-seen:
			case <-time.After(time.Millisecond):
				putSite(t, kv, "a", fmt.Sprint(n))
				continue
			}
			break
		}
		last := putSite(t, kv, "a", fmt.Sprint(-1-i))
		for got := ""; !strings.Contains(got, fmt.Sprintf(" a.%d @%d", -1-i, last)); {
			got = w.next(1)[0]
		}
	}
}

func unknownVersionExpires(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{})
	putSite(t, kv, "a", "1")
	from := putSite(t, kv, "b", "1")
	cfg := impatient(kv.Bucket())
	cfg.Verify = time.Second
	w := watchBucket(t, bucketWith(t, js, cfg), from)
	putSite(t, kv, "b", "2")
	assert.Equal(t, []string{"Modified b.2 @3"}, w.next(1), "before that it goes on")
	err := w.end()
	require.ErrorIs(t, err, informer.ErrExpired)
	require.NotErrorIs(t, err, informer.ErrNewHistory)
}

// Two informers have listed before and after a key vanished, at the same version. Nothing tells which of them watches first.
func consumersDiffer(t *testing.T, js jetstream.JetStream) {
	kv := newBucket(t, js, jetstream.KeyValueConfig{})
	for _, name := range []string{"a", "b"} {
		putSite(t, kv, name, "1")
	}
	b := bucketWith(t, js, impatient(kv.Bucket()))
	_, version := listed(t, b)
	require.NoError(t, streamOf(t, js, kv).Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+kv.Bucket()+".b")))
	all, again := listed(t, b)
	require.Equal(t, version, again)
	require.Len(t, all, 1)
	one, two := watchBucket(t, b, version), watchBucket(t, b, version)
	for _, w := range []*watched{one, two} {
		require.ErrorIs(t, w.end(), informer.ErrExpired)
	}
	_, version = listed(t, b)
	w := watchBucket(t, b, version)
	putSite(t, kv, "c", "1")
	assert.Equal(t, []string{"Added c.1 @3"}, w.next(1))
}

func ownWriteIsReported(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{}), t.Context()
	b, same := sitesIn(t, js, kv.Bucket()), sitesIn(t, connect(t, js.Conn().ConnectedUrl()), kv.Bucket())
	other := sitesIn(t, js, newBucket(t, js, jetstream.KeyValueConfig{}).Bucket())
	assert.True(t, b.Clock().Is(same.Clock()))
	assert.False(t, b.Clock().Is(other.Clock()))
	inf, err := informer.New(b, siteName, informer.Config{})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	w := &dbtest.Reported{Context: ctx}
	revision := putSite(t, kv, "a", "1")
	b.Wrote(w, uint64(revision))
	require.NoError(t, inf.WaitForVersion(ctx, revision))
	require.Len(t, w.Writes, 1)
	assert.Equal(t, uint64(revision), w.Writes[0].Version)
	assert.True(t, w.Writes[0].Clock.Is(b.Clock()))
	b.Wrote(ctx, uint64(revision)) // does nothing
	require.NoError(t, kv.Delete(ctx, "a"))
	require.NoError(t, inf.CatchUp(ctx))
	_, ok := inf.Get("a")
	assert.False(t, ok)
}

func sourcedBucketNumbersAnew(t *testing.T, js jetstream.JetStream) {
	origin := newBucket(t, js, jetstream.KeyValueConfig{})
	for i := range 5 {
		putSite(t, origin, "a", fmt.Sprint(i))
	}
	kv := newBucket(t, js, jetstream.KeyValueConfig{Sources: []*jetstream.StreamSource{{Name: origin.Bucket()}}})
	w := watchBucket(t, sitesIn(t, js, kv.Bucket()), 0)
	assert.Equal(t, []string{"Added a.4 @1"}, w.next(1))
	putSite(t, kv, "b", "1")
	require.NoError(t, origin.Delete(t.Context(), "a"))
	assert.Equal(t, []string{"Added b.1 @2", "Deleted a.0 @3 key only"}, w.next(2))
}

func mirrorHasRevisionsOfOrigin(t *testing.T, js jetstream.JetStream) {
	origin := newBucket(t, js, jetstream.KeyValueConfig{})
	for i := range 5 {
		putSite(t, origin, "a", fmt.Sprint(i))
	}
	mirror := newBucket(t, js, jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: origin.Bucket()}})
	second := newBucket(t, js, jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: mirror.Bucket()}})
	for _, kv := range []jetstream.KeyValue{mirror, second} {
		b := sitesIn(t, js, kv.Bucket())
		w := watchBucket(t, b, 0)
		assert.Equal(t, []string{"Added a.4 @5"}, w.next(1))
		revision := putSite(t, origin, "b", "1")
		assert.Contains(t, w.next(1)[0], fmt.Sprintf(" b.1 @%d", revision))
		require.NoError(t, origin.Purge(t.Context(), "b"))
		assert.Equal(t, []string{fmt.Sprintf("Deleted b.0 @%d key only", revision+1)}, w.next(1))
		all, version := listed(t, b)
		assert.Equal(t, map[string]int{"a": 4}, all)
		assert.Equal(t, revision+1, version)
	}
}

func fullBucketIsRead(t *testing.T, js jetstream.JetStream) {
	kv, ctx := newBucket(t, js, jetstream.KeyValueConfig{MaxBytes: 2000}), t.Context()
	b := sitesIn(t, js, kv.Bucket())
	w := watchBucket(t, b, 0)
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = kv.PutString(ctx, fmt.Sprint(n), "1")
	}
	require.ErrorContains(t, err, "maximum bytes exceeded")
	require.Error(t, kv.Delete(ctx, "0"), "a marker has no room")
	assert.Len(t, w.next(n-1), n-1)
	all, _ := listed(t, b)
	assert.Len(t, all, n-1)
}

func badBucketsAreRefused(t *testing.T, js jetstream.JetStream) {
	for want, cfg := range map[string]nats.BucketConfig{
		"nats: new bucket: BucketConfig.Bucket is empty; BucketConfig.Poll is -1ns, must not be negative": {Poll: -1},
		`nats: new bucket: BucketConfig.Bucket is "a.b", must be letters, digits, - and _`:                {Bucket: "a.b"},
		"nats: new bucket: BucketConfig.Verify is -1ns, must not be negative":                             {Bucket: "a", Verify: -1},
		"nats: new bucket: BucketConfig.Timeout is -1ns, must not be negative":                            {Bucket: "a", Timeout: -1},
		`nats: new bucket "missing": it does not exist`:                                                   {Bucket: "missing"},
	} {
		_, err := nats.NewBucket(t.Context(), js, decodeSiteRev, cfg)
		require.EqualError(t, err, want)
	}
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_work", Subjects: []string{"$KV.work.>"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	_, err = nats.NewBucket(t.Context(), js, decodeSiteRev, nats.BucketConfig{Bucket: "work"})
	require.EqualError(t, err, `nats: new bucket "work": its retention is WorkQueue, must be limits`)
	assert.Panics(t, func() { _, _ = nats.NewBucket[site](t.Context(), js, nil, nats.BucketConfig{Bucket: "a"}) })
	assert.Panics(t, func() { _, _ = nats.NewBucket(t.Context(), nil, decodeSiteRev, nats.BucketConfig{Bucket: "a"}) })
}

func silencesAreLogged(t *testing.T, js jetstream.JetStream) {
	for _, c := range []struct {
		cfg  jetstream.KeyValueConfig
		want []string // parts of the lines
	}{
		{jetstream.KeyValueConfig{}, nil},
		{jetstream.KeyValueConfig{History: 5, TTL: time.Hour, LimitMarkerTTL: time.Hour}, []string{"gets its older value"}},
		{jetstream.KeyValueConfig{LimitMarkerTTL: time.Hour}, nil},
		{jetstream.KeyValueConfig{TTL: time.Hour}, []string{"expire without a marker"}},
	} {
		var out bytes.Buffer
		kv := newBucket(t, js, c.cfg)
		bucketWith(t, js, nats.BucketConfig{Bucket: kv.Bucket(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(c.want) == 0 {
			assert.Empty(t, out.String())
			continue
		}
		require.Len(t, lines, len(c.want))
		for i, want := range c.want {
			assert.Contains(t, lines[i], want)
			assert.Contains(t, lines[i], kv.Bucket())
		}
	}
}

// A user that may read one bucket, and write nothing.
func TestBucketNeedsPermissionToRead(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "root", Password: "secret"},
			{Username: "reader", Password: "secret", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$JS.API.STREAM.INFO.KV_sites", "$JS.API.STREAM.MSG.GET.KV_sites", "$JS.API.CONSUMER.CREATE.KV_sites.>",
					"$JS.API.CONSUMER.MSG.NEXT.KV_sites.>", "$JS.API.CONSUMER.DELETE.KV_sites.>",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		},
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	root := connect(t, s.ClientURL(), natsgo.UserInfo("root", "secret"))
	reader := connect(t, s.ClientURL(), natsgo.UserInfo("reader", "secret"))
	for _, bucket := range []string{"sites", "others"} {
		_, err := root.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, TTL: 500 * time.Millisecond})
		require.NoError(t, err)
	}
	kv, err := root.KeyValue(t.Context(), "sites")
	require.NoError(t, err)
	b := bucketWith(t, reader, impatient("sites"))
	_, version := listed(t, b)
	w := watchBucket(t, b, version)
	putSite(t, kv, "a", "1")
	assert.Equal(t, []string{"Added a.1 @1", "Deleted a.0 @1 key only"}, w.next(2))
	_, err = nats.NewBucket(t.Context(), reader, decodeSiteRev, nats.BucketConfig{Bucket: "others", Timeout: 200 * time.Millisecond})
	require.ErrorContains(t, err, `nats: new bucket "others": the server has not answered within 200ms`)
}
