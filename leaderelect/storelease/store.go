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
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/store"
)

// Record is the value of the object that keeps a lease. Open a kind of its own for it, such as "leases".
type Record struct {
	Value []byte // of the leaderelect.Entry
	Term  uint64
	Write string // random, another one with every write, so that each is a change
}

// Store is a leaderelect.LeaseStore in any store.Store. It is a leaderelect.Watcher and a shard.Lister, and its
// entries have a floor.
//
// All methods may be called by many goroutines at once.
type Store struct {
	records store.Store[Record]
	cfg     Config
}

// New returns a store that keeps each lease in an object of records. Its error is nil: every Config is valid. New panics if
// records is nil.
func New(records store.Store[Record], cfg Config) (*Store, error) {
	if records == nil {
		panic("storelease: New: the store of records is nil")
	}
	return &Store{records: records, cfg: cfg.withDefaults()}, nil
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	o, err := s.records.Get(ctx, s.cfg.Prefix+escape(key))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return leaderelect.Entry{}, fmt.Errorf("storelease: get %q: %w", key, leaderelect.ErrNotFound)
	case err != nil:
		return leaderelect.Entry{}, fmt.Errorf("storelease: get %q: %w", key, err)
	}
	return s.entryOf(o), nil
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	// Never with IfTerm. A record that was deleted is created again in term 1; only then is the floor known, and the
	// update to a term from there on is fenced.
	o, err := s.records.Create(ctx, s.objectOf(e, 0))
	switch {
	case errors.Is(err, store.ErrExists):
		return leaderelect.Entry{}, fmt.Errorf("storelease: create %q: %w", e.Key, leaderelect.ErrConflict)
	case err != nil:
		return leaderelect.Entry{}, fmt.Errorf("storelease: create %q: %w", e.Key, err)
	}
	return s.entryOf(o), nil
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
			return fail(context.Cause(ctx))
		}
		return fail(leaderelect.ErrConflict) // no version of ours
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
		return fail(err)
	}
	return s.entryOf(o), nil
}

// List returns the records whose keys begin with prefix, in order of key, all of one moment.
func (s *Store) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	found, err := s.records.Select(ctx, store.Selector{Prefix: s.cfg.Prefix + escape(prefix)})
	if err != nil {
		return nil, fmt.Errorf("storelease: list %q: %w", prefix, err)
	}
	var list []leaderelect.Entry
	for _, o := range found.Items {
		list = append(list, s.entryOf(o))
	}
	slices.SortFunc(list, func(a, b leaderelect.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Watch yields the record as it is, and then after each change. It goes on by itself when the store has forgotten what
// has changed meanwhile.
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

// errLeft says that the consumer has left its loop.
var errLeft = errors.New("left")

// watchOnce tells of the record as it is and of what follows, until the watch of the store ends.
func (s *Store) watchOnce(ctx context.Context, key string, tell func(leaderelect.Entry) bool) error {
	name := s.cfg.Prefix + escape(key)
	found, err := s.records.Select(ctx, store.Selector{Prefix: name})
	if err != nil {
		return err
	}
	now := leaderelect.Entry{Key: key}
	for _, o := range found.Items {
		if o.Key == name {
			now = s.entryOf(o)
		}
	}
	if !tell(now) {
		return errLeft
	}
	for event, err := range s.records.WatchSelected(ctx, store.Selector{Prefix: name}, found.Version) {
		if err != nil {
			return err
		}
		if event.Type == informer.Bookmark || event.Object.Key != name {
			continue
		}
		now := leaderelect.Entry{Key: key}
		if event.Type != informer.Deleted {
			now = s.entryOf(event.Object)
		}
		if !tell(now) {
			return errLeft
		}
	}
	return nil
}

// objectOf returns the object that keeps e.
func (s *Store) objectOf(e leaderelect.Entry, version informer.Version) store.Object[Record] {
	return store.Object[Record]{
		Key:     s.cfg.Prefix + escape(e.Key),
		Value:   Record{Value: slices.Clone(e.Value), Term: e.Term, Write: rand.Text()},
		Version: version,
	}
}

// entryOf returns what o keeps. The store has copied it.
func (s *Store) entryOf(o store.Object[Record]) leaderelect.Entry {
	return leaderelect.Entry{
		Key:     unescape(strings.TrimPrefix(o.Key, s.cfg.Prefix)),
		Value:   o.Value.Value,
		Term:    o.Value.Term,
		Version: strconv.FormatUint(uint64(o.Version), 10),
		Floor:   uint64(o.Version),
	}
}
