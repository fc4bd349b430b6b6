package storelease_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func records(t testing.TB, db *store.Memory) store.Store[storelease.Record] {
	t.Helper()
	s, err := store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{})
	require.NoError(t, err)
	return s
}

func TestStoreConformsToLeaseStore(t *testing.T) {
	for name, history := range map[string]int{"with a history": 0, "that forgets at once": -1} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(t *testing.T) leasetest.Backend {
				db := store.NewMemory(store.MemoryConfig{History: history})
				lossy := &lossy{Store: records(t, db)}
				return leasetest.Backend{
					Store: storelease.New(lossy, storelease.Config{Unfenced: true}),
					Reopen: func() leaderelect.LeaseStore {
						return storelease.New(records(t, db), storelease.Config{Unfenced: true})
					},
					Delete:   func(key string) { require.NoError(t, errOf(lossy.Delete(context.Background(), "lease/"+key))) },
					CutReply: func() { lossy.cut = true },
				}
			})
		})
	}
}

// lossy is a store whose replies can be lost.
type lossy struct {
	store.Store[storelease.Record]
	cut bool
}

var errNetwork = errors.New("connection reset")

func (s *lossy) Create(ctx context.Context, o store.Object[storelease.Record], pre ...store.Precondition) (store.Object[storelease.Record], error) {
	o, err := s.Store.Create(ctx, o, pre...)
	if s.cut {
		s.cut, err = false, errNetwork
	}
	return o, err
}

func (s *lossy) Update(ctx context.Context, o store.Object[storelease.Record], pre ...store.Precondition) (store.Object[storelease.Record], error) {
	o, err := s.Store.Update(ctx, o, pre...)
	if s.cut {
		s.cut, err = false, errNetwork
	}
	return o, err
}

// WatchSelected ends without an error after each event, which it may.
func (s *lossy) WatchSelected(ctx context.Context, sel store.Selector, after informer.Version) iter.Seq2[informer.Event[store.Object[storelease.Record]], error] {
	return func(yield func(informer.Event[store.Object[storelease.Record]], error) bool) {
		for event, err := range s.Store.WatchSelected(ctx, sel, after) {
			yield(event, err)
			return
		}
	}
}

func TestWatchReturnsStoreError(t *testing.T) {
	failing := failing{records(t, store.NewMemory(store.MemoryConfig{}))}
	s := storelease.New(failing, storelease.Config{})
	var got []error
	for e, err := range s.Watch(context.Background(), "lease") {
		if err == nil {
			assert.Equal(t, leaderelect.Entry{Key: "lease"}, e)
		}
		got = append(got, err)
	}
	require.Len(t, got, 2)
	require.NoError(t, got[0])
	require.ErrorIs(t, got[1], errNetwork)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range s.Watch(ctx, "lease") {
		t.Error("a watch yields after its context ended")
	}
}

// failing is a store whose watches fail.
type failing struct{ store.Store[storelease.Record] }

func (failing) WatchSelected(context.Context, store.Selector, informer.Version) iter.Seq2[informer.Event[store.Object[storelease.Record]], error] {
	return func(yield func(informer.Event[store.Object[storelease.Record]], error) bool) {
		yield(informer.Event[store.Object[storelease.Record]]{}, errNetwork)
	}
}

func TestWatchIgnoresKeysWithSamePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := storelease.New(records(t, store.NewMemory(store.MemoryConfig{})), storelease.Config{})
		for _, key := range []string{"lease-2", "lease/", "leas"} {
			_, err := s.Create(ctx, leaderelect.Entry{Key: key, Term: 5})
			require.NoError(t, err)
		}
		var seen []leaderelect.Entry
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			for e, err := range s.Watch(ctx, "lease") {
				if err == nil {
					seen = append(seen, e)
				}
			}
		}()
		synctest.Wait()
		_, err := s.Create(ctx, leaderelect.Entry{Key: "lease-3", Term: 6})
		require.NoError(t, err)
		want, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1, Value: []byte("a")})
		require.NoError(t, err)
		time.Sleep(time.Minute) // for bookmarks, if any come
		synctest.Wait()
		assert.Equal(t, []leaderelect.Entry{{Key: "lease"}, want}, seen)
		cancel()
		<-done
	})
}

func TestFollowersTakeOverImmediatelyAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		var began []time.Time
		elector := func() *leaderelect.Elector {
			e, err := leaderelect.New(leaderelect.Config{
				Store: storelease.New(records(t, db), storelease.Config{}), Key: "lease", Identity: "test",
				Logger: slog.New(slog.DiscardHandler), ReleaseOnCancel: true,
				OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
					began = append(began, time.Now())
					<-ctx.Done()
					return nil
				},
			})
			require.NoError(t, err)
			return e
		}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- elector().Run(first) }() // ends with its context, as does the other
		time.Sleep(time.Second)
		go func() { done <- elector().Run(second) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, began, 1)
		released := time.Now()
		endFirst()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, began, 2)
		assert.LessOrEqual(t, began[1].Sub(released), 20*time.Millisecond)
		endSecond()
		require.NoError(t, errors.Join(<-done, <-done))
	})
}

func TestTakeoverFencesDatabaseBeforeFirstWrite(t *testing.T) {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	things, err := store.Open[string](db, "things", store.Config[string]{})
	require.NoError(t, err)
	s := storelease.New(records(t, db), storelease.Config{})
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	_, err = things.Create(ctx, store.Object[string]{Key: "a"}, store.IfTerm("lease", 1))
	require.NoError(t, err)
	e.Term = 2
	_, err = s.Update(ctx, e)
	require.NoError(t, err)
	_, err = things.Create(ctx, store.Object[string]{Key: "b"}, store.IfTerm("lease", 1))
	require.ErrorIs(t, err, store.ErrFenced)
	_, err = things.Create(ctx, store.Object[string]{Key: "b"}, store.IfTerm("another", 1))
	require.NoError(t, err, "terms belong to a lease")
}

// Every leader of two leases, in any order of takeovers, writes to one database under its context.
func TestLeadersOfTwoLeasesDoNotFenceEachOther(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	things := must(store.Open[string](db, "things", store.Config[string]{}))
	leases := storelease.New(records(t, db), storelease.Config{})
	var old []context.Context
	lead := func(lease string) {
		elector, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: lease, Identity: "test", Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
				fence, ok := store.FenceFrom(ctx)
				require.True(t, ok)
				require.Equal(t, store.Fence{Lease: lease, Term: l.Term()}, fence)
				old = append(old, context.WithoutCancel(ctx), context.WithoutCancel(l.Context()))
				_, err := things.Create(ctx, store.Object[string]{Key: fmt.Sprint(lease, l.Term())})
				return err
			},
		})
		require.NoError(t, err)
		require.NoError(t, elector.RunOnce(t.Context()))
	}
	for range 3 {
		lead("one")
	}
	lead("two")
	lead("one")
	for i, ctx := range old {
		_, err := things.Create(ctx, store.Object[string]{Key: fmt.Sprint("late", i)})
		if last := i >= 6; last { // of its lease
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, store.ErrFenced)
		}
	}
}

func TestFencedUpdateIsNoConflict(t *testing.T) {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	things, err := store.Open[string](db, "things", store.Config[string]{})
	require.NoError(t, err)
	s := storelease.New(records(t, db), storelease.Config{})
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	_, err = things.Create(ctx, store.Object[string]{Key: "a"}, store.IfTerm("lease", 7)) // of another leader
	require.NoError(t, err)
	_, err = s.Update(ctx, e)
	require.ErrorIs(t, err, store.ErrFenced)
	require.NotErrorIs(t, err, leaderelect.ErrConflict)
}

func TestDeletedRecordDoesNotBlockDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		things, err := store.Open[string](db, "things", store.Config[string]{})
		require.NoError(t, err)
		all := records(t, db)
		var terms []uint64
		lead := func() {
			elector, err := leaderelect.New(leaderelect.Config{
				Store: storelease.New(all, storelease.Config{}), Key: "lease", Identity: "test",
				Logger: slog.New(slog.DiscardHandler),
				OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
					terms = append(terms, l.Term())
					_, err := things.Create(ctx, store.Object[string]{Key: time.Now().String()}, store.IfTerm("lease", l.Term()))
					return err
				},
			})
			require.NoError(t, err)
			require.NoError(t, elector.RunOnce(t.Context()))
		}
		for range 3 {
			lead()
			time.Sleep(time.Second)
		}
		require.NoError(t, errOf(all.Delete(t.Context(), "lease/lease")))
		lead() // by an elector that has never seen a term
		assert.Equal(t, []uint64{1, 2, 3}, terms[:3])
		assert.Greater(t, terms[3], uint64(3))
	})
}

// Nobody can read or replace such a record by the key that List would return.
func TestListLeavesOutObjectsThatAreNoLeases(t *testing.T) {
	ctx := context.Background()
	kept := records(t, store.NewMemory(store.MemoryConfig{}))
	s := storelease.New(kept, storelease.Config{})
	for _, key := range []string{"lease/%41", "lease/%c3%a4", "lease/%", "other/a"} {
		_, err := kept.Create(ctx, store.Object[storelease.Record]{Key: key})
		require.NoError(t, err)
	}
	var want []leaderelect.Entry
	for _, key := range []string{"A", "ä"} {
		want = append(want, must(s.Create(ctx, leaderelect.Entry{Key: key})))
	}
	got, err := s.List(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestLeaseOfUndecodableObjectIsTakenAfterItsDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		db := store.NewMemory(store.MemoryConfig{})
		_, err := db.Transact(ctx, "leases", "lease/shop", nil, func(have backend.Record) (*backend.Record, error) {
			have.Meta, have.Value = []byte(`{"uid":"u1","generation":1}`), []byte(`"edited by hand"`)
			return &have, nil
		})
		require.NoError(t, err)
		quiet := slog.New(slog.DiscardHandler)
		kept := must(store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{}))
		elector := must(leaderelect.New(leaderelect.Config{
			Store: storelease.New(kept, storelease.Config{}), Key: "shop", Identity: "test", Logger: quiet,
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil },
		}))
		ended := make(chan error)
		go func() { ended <- elector.Run(ctx) }() // ends with ctx
		time.Sleep(time.Hour)
		assert.False(t, elector.IsLeader())
		assert.ErrorIs(t, elector.Check(), store.ErrDecode)
		_, err = kept.Delete(ctx, "lease/shop")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, elector.IsLeader(), "after the deletion")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestInvalidVersionIsAConflict(t *testing.T) {
	ctx := context.Background()
	s := storelease.New(records(t, store.NewMemory(store.MemoryConfig{})), storelease.Config{})
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease"})
	require.NoError(t, err)
	for _, version := range []string{"", "0", "0" + e.Version, "+" + e.Version, e.Version + " ", "one", "-1"} {
		e.Version = version
		_, err := s.Update(ctx, e)
		require.ErrorIs(t, err, leaderelect.ErrConflict, version)
	}
}

// Such a key is no name of a lease in the database, so its term cannot fence.
func TestLeaseThatFencesNothingIsUpdated(t *testing.T) {
	ctx := context.Background()
	s := storelease.New(records(t, store.NewMemory(store.MemoryConfig{})), storelease.Config{})
	for _, key := range []string{"", "\x80", "a\xff", "a\x00b"} {
		e, err := s.Create(ctx, leaderelect.Entry{Key: key, Term: 1})
		require.NoError(t, err, "%q", key)
		e.Term = 2
		e, err = s.Update(ctx, e)
		require.NoError(t, err, "%q", key)
		got, err := s.Get(ctx, key)
		require.NoError(t, err, "%q", key)
		assert.Equal(t, e, got)
	}
}

// silent is a store whose calls end without an answer.
type silent struct {
	store.Store[storelease.Record]
	err error
}

func (s silent) Get(context.Context, string) (o store.Object[storelease.Record], err error) {
	return o, s.err
}

func (s silent) Create(context.Context, store.Object[storelease.Record], ...store.Precondition) (o store.Object[storelease.Record], err error) {
	return o, s.err
}

func (s silent) Update(context.Context, store.Object[storelease.Record], ...store.Precondition) (o store.Object[storelease.Record], err error) {
	return o, s.err
}

func (s silent) Select(context.Context, store.Selector) (l informer.List[store.Object[storelease.Record]], err error) {
	return l, s.err
}

func TestErrorsOfStoreAreWrapped(t *testing.T) {
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(leaderelect.ErrConflict) // the answer to another call
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error // of the store
		want error
	}{
		{"a failure", context.Background(), errNetwork, errNetwork},
		{"a failure after the end", ended, errNetwork, errNetwork},
		{"the end", ended, context.Cause(ended), context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := storelease.New(silent{err: tt.err}, storelease.Config{})
			_, getErr := s.Get(tt.ctx, "lease")
			_, createErr := s.Create(tt.ctx, leaderelect.Entry{Key: "lease", Term: 1})
			_, updateErr := s.Update(tt.ctx, leaderelect.Entry{Key: "lease", Term: 1, Version: "1"})
			for _, err := range []error{getErr, createErr, updateErr} {
				require.ErrorIs(t, err, tt.want)
				require.ErrorContains(t, err, tt.err.Error())
				require.NotErrorIs(t, err, leaderelect.ErrConflict)
			}
		})
	}
	s := storelease.New(silent{err: errNetwork}, storelease.Config{})
	_, err := s.List(context.Background(), "")
	require.ErrorIs(t, err, errNetwork)
	for _, err := range s.Watch(context.Background(), "lease") {
		require.ErrorIs(t, err, errNetwork)
	}
}

func TestWatchReportsDeletionAndStopsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		_, err := db.Transact(t.Context(), "leases", "lease/lease-2", nil, func(have backend.Record) (*backend.Record, error) {
			have.Meta, have.Value = []byte(`{"uid":"u1","generation":1}`), []byte(`"edited by hand"`)
			return &have, nil
		})
		require.NoError(t, err)
		kept := must(store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{}))
		s := storelease.New(kept, storelease.Config{})
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		var seen []leaderelect.Entry
		done := make(chan struct{})
		go func() { // ends with the deletion
			defer close(done)
			for e, err := range s.Watch(t.Context(), "lease") {
				assert.NoError(t, err, "another lease does not decode")
				if seen = append(seen, e); len(seen) == 2 {
					return
				}
			}
		}()
		synctest.Wait()
		require.NoError(t, errOf(kept.Delete(t.Context(), "lease/lease")))
		<-done
		assert.Equal(t, []leaderelect.Entry{e, {Key: "lease"}}, seen)
	})
}

// errOf returns the error of a call that returns an object too.
func errOf[T any](_ store.Object[T], err error) error { return err }

func TestRenewalRemovesWhatOthersAddToObject(t *testing.T) {
	rec := records(t, store.NewMemory(store.MemoryConfig{}))
	leases := storelease.New(rec, storelease.Config{})
	have, err := leases.Create(t.Context(), leaderelect.Entry{Key: "a", Term: 1})
	require.NoError(t, err)
	o, err := rec.Get(t.Context(), "lease/a")
	require.NoError(t, err)
	o.Labels, o.Finalizers = map[string]string{"by": "hand"}, []string{"by-hand"}
	o, err = rec.Update(t.Context(), o)
	require.NoError(t, err)
	require.NotEmpty(t, o.Labels)
	_, err = leases.Update(t.Context(), have)
	require.ErrorIs(t, err, leaderelect.ErrConflict)
	have, err = leases.Get(t.Context(), "a")
	require.NoError(t, err)
	_, err = leases.Update(t.Context(), have)
	require.NoError(t, err)
	o, err = rec.Get(t.Context(), "lease/a")
	require.NoError(t, err)
	assert.Empty(t, o.Labels)
	assert.Empty(t, o.Finalizers)
}

func TestKeyMayBeAsLongAsThatOfAnObject(t *testing.T) {
	leases := storelease.New(records(t, store.NewMemory(store.MemoryConfig{})), storelease.Config{Prefix: "p/"})
	room := backend.MaxKey - len("p/")
	for _, key := range []string{strings.Repeat("k", room), strings.Repeat("%", room/3), strings.Repeat("é", room/6)} {
		_, err := leases.Create(t.Context(), leaderelect.Entry{Key: key, Term: 1})
		require.NoError(t, err)
		_, err = leases.Create(t.Context(), leaderelect.Entry{Key: key + key[:2] + "kkk", Term: 1})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.True(t, retry.IsPermanent(err), "an elector with this key can never lead: %v", err)
		require.NotErrorIs(t, err, leaderelect.ErrConflict)
	}
}
