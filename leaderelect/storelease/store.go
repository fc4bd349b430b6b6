package storelease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// Record is the value of the object that keeps a lease. Open a separate kind for it, such as "leases".
type Record struct {
	Value []byte // of the leaderelect.Entry
	Term  uint64
	Write string // random, new with every write, so that every write is a change
}

// Store is a leaderelect.LeaseStore in any store.Store. It is also a leaderelect.Watcher and a shard.Lister, and its entries
// have a floor.
//
// All methods may be called concurrently.
type Store struct {
	records store.Store[Record]
	cfg     Config
}

// New returns a store that keeps each lease in an object of records. New panics if records is nil.
func New(records store.Store[Record], cfg Config) *Store {
	if records == nil {
		panic("storelease: New: the store of records is nil")
	}
	return &Store{records: records, cfg: cfg.withDefaults()}
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	o, err := s.records.Get(ctx, s.cfg.Prefix+escape(key))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return leaderelect.Entry{}, fmt.Errorf("storelease: get %q: %w", key, leaderelect.ErrNotFound)
	case err != nil:
		return leaderelect.Entry{}, fmt.Errorf("storelease: get %q: %w", key, failed(ctx, err))
	}
	return entryOf(key, o), nil
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	// Never with IfTerm: a deleted record is created again with term 1. Only then is the floor known, and the update to a
	// term above the floor is fenced.
	o, err := s.records.Create(ctx, s.objectOf(e, 0))
	switch {
	case errors.Is(err, store.ErrExists):
		return leaderelect.Entry{}, fmt.Errorf("storelease: create %q: %w", e.Key, leaderelect.ErrConflict)
	case err != nil:
		return leaderelect.Entry{}, fmt.Errorf("storelease: create %q: %w", e.Key, failed(ctx, err))
	}
	return entryOf(e.Key, o), nil
}

// Update replaces a record, or returns leaderelect.ErrConflict. Unless Config.Unfenced is set, the error wraps
// store.ErrFenced if a greater term of the lease has written to the database.
func (s *Store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	fail := func(err error) (leaderelect.Entry, error) {
		return leaderelect.Entry{}, fmt.Errorf("storelease: update %q: %w", e.Key, err)
	}
	version, err := strconv.ParseUint(e.Version, 10, 64)
	if err != nil || strconv.FormatUint(version, 10) != e.Version {
		if ctx.Err() != nil {
			return fail(ended.Err(ctx, context.Cause(ctx), answers))
		}
		return fail(leaderelect.ErrConflict) // this store never returns such a version
	}
	var fence store.Precondition
	if !s.cfg.Unfenced && e.Key != "" && utf8.ValidString(e.Key) && !strings.Contains(e.Key, "\x00") {
		fence = store.IfTerm(e.Key, e.Term)
	}
	o, err := s.records.Update(ctx, s.objectOf(e, informer.Version(version)), fence)
	switch {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return fail(leaderelect.ErrConflict)
	case err != nil:
		return fail(failed(ctx, err))
	}
	return entryOf(e.Key, o), nil
}

// List returns the records whose keys begin with prefix, sorted by key, all of one moment. It leaves out objects that
// do not decode, and those whose keys no store of leases has written.
func (s *Store) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	found, err := s.records.Select(ctx, store.Selector{Prefix: s.cfg.Prefix + escape(prefix)})
	if err != nil {
		return nil, fmt.Errorf("storelease: list %q: %w", prefix, failed(ctx, err))
	}
	var list []leaderelect.Entry
	for _, o := range found.Items {
		if key, ok := unescape(strings.TrimPrefix(o.Key, s.cfg.Prefix)); ok {
			list = append(list, entryOf(key, o))
		}
	}
	slices.SortFunc(list, func(a, b leaderelect.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Watch yields the current record, and then the record after each change. If the store no longer has the changes in
// between, the watch continues with the current record. If that does not decode, the watch fails.
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for ctx.Err() == nil {
			err := s.watchOnce(ctx, key, func(e leaderelect.Entry) bool { return yield(e, nil) })
			switch {
			case errors.Is(err, errLeft):
				return
			case errors.Is(err, informer.ErrExpired), err == nil:
			default:
				yield(leaderelect.Entry{}, fmt.Errorf("storelease: watch %q: %w", key, err))
				return
			}
		}
	}
}

// errLeft means that the consumer has left its loop.
var errLeft = errors.New("left")

// watchOnce yields the current record and its changes, until the watch of the store ends.
func (s *Store) watchOnce(ctx context.Context, key string, yield func(leaderelect.Entry) bool) error {
	name := s.cfg.Prefix + escape(key)
	found, err := s.records.Select(ctx, store.Selector{Prefix: name})
	if err != nil {
		return err
	}
	now := leaderelect.Entry{Key: key}
	for _, o := range found.Items {
		if o.Key == name {
			now = entryOf(key, o)
		}
	}
	for _, unread := range found.Unread {
		if unread.Object.Key == name { // it is there, so it must not be reported as missing
			return unread.Err
		}
	}
	if !yield(now) {
		return errLeft
	}
	for event, err := range s.records.WatchSelected(ctx, store.Selector{Prefix: name}, found.Version) {
		if err != nil {
			return err
		}
		if event.Type == informer.Bookmark || event.Object.Key != name {
			continue
		}
		if event.Type == informer.Unreadable {
			return event.Err
		}
		now := leaderelect.Entry{Key: key}
		if event.Type != informer.Deleted {
			now = entryOf(key, event.Object)
		}
		if !yield(now) {
			return errLeft
		}
	}
	return nil
}

// answers are the errors with which a store of leases answers a call.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict}

// failed returns the error of a call of the store, for a caller that would take the cause of ctx for an answer. If no call for this key
// can succeed, because the key is too long for example, the error is marked with retry.Permanent.
func failed(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrInvalid) && ctx.Err() == nil {
		return retry.Permanent(err)
	}
	return ended.Err(ctx, err, answers)
}

// objectOf returns the object for e.
func (s *Store) objectOf(e leaderelect.Entry, version informer.Version) store.Object[Record] {
	return store.Object[Record]{
		Key:     s.cfg.Prefix + escape(e.Key),
		Value:   Record{Value: slices.Clone(e.Value), Term: e.Term, Write: rand.Text()},
		Version: version,
	}
}

// entryOf returns the entry in o, under its key. The store has copied it already.
func entryOf(key string, o store.Object[Record]) leaderelect.Entry {
	return leaderelect.Entry{
		Key:     key,
		Value:   o.Value.Value,
		Term:    o.Value.Term,
		Version: strconv.FormatUint(uint64(o.Version), 10),
		Floor:   uint64(o.Version),
	}
}
