package store

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/plain"
	"github.com/setpoint-go/setpoint/store/internal/strictjson"
)

// Store is a system of record for the objects of one kind. Every Store is an informer.ListWatcher, Pager, Equaler and
// Bookmarker of its objects. [Open] makes one of any backend.
//
// What goes in and what comes out are deep copies: nothing that a caller does to an object, before or after, changes
// the store or what another caller holds. All methods may be called by several goroutines at once. Every error but the
// cause of a context that ended a Watch is an [*Error].
//
// Get, List, ListPages, Select, Watch, and WatchSelected read. Reads are fresh: they see every write that was accepted before
// them.
//
// Create, Update, UpdateStatus, and Delete write. A write is refused with [ErrInvalid], [ErrFenced], [ErrExists] or
// [ErrNotFound], or [ErrConflict], checked in this order. A write that is refused changes nothing. A write that was accepted
// before under the same [RequestID] is not applied again. Each write carries the fence of its context: see [WithFence].
type Store[T any] interface {
	// Kind is the name of the kind of object that this is a store of.
	Kind() string

	// Get returns the object under key, or [ErrNotFound], or [ErrDecode].
	Get(ctx context.Context, key string) (Object[T], error)

	// List returns all objects, in order of key, and the version at which the list is current. Objects that do not decode
	// are among the Unread ones of the list, with nothing but their Kind, Key and Version.
	List(ctx context.Context) (informer.List[Object[T]], error)

	// ListPages yields what List returns in pages, as the backend has them.
	ListPages(ctx context.Context) iter.Seq2[informer.List[Object[T]], error]

	// Select returns the objects that sel selects, in order of key, and the version at which the list is current. With
	// the zero Selector it is List.
	Select(ctx context.Context, sel Selector) (informer.List[Object[T]], error)

	// Watch yields every change after the given version, in order of version, and goes on until the consumer leaves
	// the loop or ctx ends. Zero stands for the time before the first change. The version of an event is that of its
	// object; a deletion carries the last state of the object under the version of the deletion. Bookmarks say that
	// nothing happened to this kind up to a version. There is one at least every [backend.BookmarkInterval], also when
	// nothing happens at all.
	//
	// Where the backend Skips, a write that another write of the same key has followed may be left out. Deletions never
	// are.
	//
	// The last pair that it yields, when it has to end, is an error alone: [informer.ErrExpired] when the changes after the
	// version are not all known any more (also in the middle, to a consumer that is too slow) or when the store has
	// not reached that version, [context.Cause] of ctx when ctx ends.
	Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]

	// WatchSelected is Watch of the objects that sel selects. An object that enters the selection is told as Added, and one
	// that leaves it as Deleted, in the state with which it left. Where the backend Skips, the deletion of an object that
	// was not in the selection may be told too. See [Selected] for an informer of a selection.
	WatchSelected(ctx context.Context, sel Selector, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]

	// Create stores a new object and returns it as stored. The store sets UID, Version, Generation and Created; what the caller
	// wrote there and in Deleting is ignored. [ErrExists] when the key is taken. To a precondition, an object that is
	// not there has version 0 and no UID.
	Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Update replaces Value, Labels, Owners and Finalizers of an object and returns it as stored. It is a compare-and-swap:
	// obj.Version has to be the version that is stored, and obj.UID, unless empty, the UID; else [ErrConflict]. What
	// the caller wrote in Generation, Created and Deleting is ignored, and so is the status in Value, when the type has
	// one: it stays what it is.
	//
	// An Update that changes nothing writes nothing: it makes no event and returns the object with the version that
	// it had. An Update that leaves an object without finalizers whose Deleting is set removes it, and returns its
	// last state.
	Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// UpdateStatus replaces the status in Value and nothing else; all other fields of obj but those that Update compares
	// are ignored. It is the same compare-and-swap as Update. [ErrInvalid] when the type has no status.
	UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Delete removes an object, whatever its version, when no precondition says otherwise. It returns the last state of the
	// object, with the version of the deletion. An object with finalizers stays, with Deleting set, until an Update has
	// removed the last of them, and is returned so; deleting it again does nothing.
	Delete(ctx context.Context, key string, pre ...Precondition) (Object[T], error)

	// Equal reports whether a and b are the same version of the same object. It makes the store an informer.Equaler, whose
	// informers deliver nothing for objects that a new list brings unchanged.
	Equal(a, b Object[T]) bool

	// BookmarkPeriod returns [backend.BookmarkInterval]. It makes the store an informer.Bookmarker, whose informers notice a
	// watch that hangs.
	BookmarkPeriod() time.Duration

	// Stats returns the records that do not decode.
	Stats() Stats
}

// Selector says which objects a Select returns or a WatchSelected tells of: those that all of it holds for. The zero value
// selects all. Its fields are the Prefix of the key, such as "shop/" for a namespace, and the Labels that are required.
type Selector = backend.Query

// Requirement is what a [Selector] requires of one label:
//
//	{Label: "tier"}                                 there is such a label
//	{Label: "tier", Not: true}                      there is none
//	{Label: "tier", Values: {"front"}}              it has one of these values
//	{Label: "tier", Values: {"front"}, Not: true}   it has none of these values, or is not there
type Requirement = backend.Requirement

// Selected returns the source of the objects of s that sel selects, for an informer that need not mirror a whole kind: the
// objects of a tenant, or of a shard.
//
//	front := store.Selector{Prefix: "shop/"}
//	inf, err := informer.New(store.Selected(apps, front), store.Key, informer.Config{})
//
// It is an informer.Equaler and Bookmarker. Versions are those of s, so whoever waits for the version of any write does not wait in vain.
func Selected[T any](s Store[T], sel Selector) informer.ListWatcher[Object[T]] {
	if s == nil {
		panic("store: Selected needs a store")
	}
	return &selected[T]{s, sel}
}

type selected[T any] struct {
	store Store[T]
	sel   Selector
}

func (s *selected[T]) Equal(a, b Object[T]) bool { return s.store.Equal(a, b) }

func (s *selected[T]) Source() any { return s.store }

func (s *selected[T]) BookmarkPeriod() time.Duration { return s.store.BookmarkPeriod() }

func (s *selected[T]) List(ctx context.Context) (informer.List[Object[T]], error) {
	return s.store.Select(ctx, s.sel)
}

func (s *selected[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Object[T]], error] {
	return s.store.WatchSelected(ctx, s.sel, after)
}

// Open returns the store of one kind of objects in b. To open a kind again gives the same objects; it is an error to
// do so with another T. It reads and writes nothing.
func Open[T any](b backend.Backend, kind string, cfg Config[T]) (Store[T], error) {
	fail := func(err error) (Store[T], error) { return nil, failed(opOpen, kind, "", err) }
	s := &engine[T]{kind: kind, db: b}
	if err := checkName("kind", kind, backend.MaxKind); err != nil {
		return nil, s.invalid(opOpen, "", err)
	}
	memory, isMemory := b.(*Memory)
	if b == nil || isMemory && memory == nil {
		return fail(errors.New("the backend is nil"))
	}
	if err := cfg.validate(); err != nil {
		return fail(err)
	}
	s.cfg = cfg.withDefaults()
	t := reflect.TypeFor[T]()
	status, err := statustag.Of(t)
	if err != nil {
		return fail(err)
	}
	life := lifecycle[T]{status}
	s.hasStatus = status != nil
	c := &codec[T]{kind, s.cfg.Encode, s.cfg.Decode}
	if c.encode == nil {
		c.encode, c.decode = strictjson.Encode[T], strictjson.Decode[T]
	}
	values, isPlain := plain.Of[T]()
	switch {
	case memory != nil && s.cfg.Encode == nil && isPlain:
		s.direct = &direct[T]{memory.items.Kind(kind), values, c, life}
		s.keeper = s.direct
	case s.cfg.Encode == nil:
		if err := strictjson.Check(t); err != nil {
			return fail(err)
		}
		fallthrough
	default:
		can := b.Capabilities()
		s.keeper = &encoded[T]{b, kind, c, life, can.MaxBytes}
		s.skips = can.Skips
	}
	if err := b.Claim(kind, t); err != nil {
		return fail(err)
	}
	return s, nil
}

// Config is the configuration of a [Store] of values of type T. Its zero value is ready to use.
type Config[T any] struct {
	// Encode and Decode are the codec of the values: what they make of each other's results is the same value, and the same
	// value always has the same bytes. They are called by several goroutines at once, and keep nothing of what they get.
	// Set both or none. They default to encoding/json, which refuses strings that are not UTF-8; then T has to be a type
	// that JSON keeps whole.
	//
	// A [Memory] keeps values of plain data as they are when neither is set.
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)

	// NewUID returns a UID that it has never returned before. It is called for every Create, without locks, by several
	// goroutines at once. Defaults to 130 random bits as text. Set it to have the same UIDs in every run of a test.
	NewUID func() string

	// OnUndecodable is called when a list or a watch has met a record that does not decode, once for each version. The error
	// wraps [ErrDecode], and its Have is the version. The goroutine that reads calls it, without locks: it must be quick.
	OnUndecodable func(*Error)

	// Logger logs the records that do not decode. Defaults to slog.Default().
	Logger *slog.Logger
}

// Stats is the state of a [Store] that no caller's error reports.
type Stats struct {
	// Undecodable has an error for each record that lists and watches have met and that did not decode, in order of key. It
	// no longer has one for a record that was repaired or deleted, once a list or a watch of this Store has seen that.
	Undecodable []*Error

	// Fenced is the number of writes through this Store that were refused because a later leader has written: see ErrFenced.
	Fenced uint64
}

// withDefaults returns c with every zero value replaced, but for the codec.
func (c Config[T]) withDefaults() Config[T] {
	if c.NewUID == nil {
		c.NewUID = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c *Config[T]) validate() error {
	switch {
	case c.Encode != nil && c.Decode == nil:
		return errors.New("Config.Encode is set without Config.Decode")
	case c.Encode == nil && c.Decode != nil:
		return errors.New("Config.Decode is set without Config.Encode")
	}
	return nil
}
