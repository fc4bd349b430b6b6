package store

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/internal/strictjson"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Store holds the objects of one kind. It is an informer.ListWatcher, Pager, Equaler, Bookmarker, and Versioner of them. [Open] returns the Store
// of a kind in a backend.
//
// Arguments and results are deep copies: no change of one reaches the store or another caller. All methods are safe for concurrent
// use. Every error is an [*Error], except the cause of a context that ended a Watch.
//
// Get, List, ListPages, Select, LatestVersion, Watch, and WatchSelected read. A read sees every write that was accepted before it.
//
// Create, Update, UpdateStatus, and Delete write. If several reasons to reject a write apply, the error is the first of [ErrInvalid],
// [ErrFenced], [ErrExists] or [ErrNotFound], and [ErrConflict]. The [ErrInvalid] of a Value that does not encode, or of an object that is
// too large, comes after the others. A rejected write changes nothing. Each write carries the fence of its context: see [WithFence]. Some backends let a write join your own transaction: see their
// WithTx.
type Store[T any] interface {
	// Kind returns the name of the kind.
	Kind() string

	// Get returns the object under key. If there is none, the error is [ErrNotFound]; if its record does not decode, [ErrDecode].
	Get(ctx context.Context, key string) (Object[T], error)

	// List returns all objects, in order of key, and the version at which the list is current. An object that does not decode is
	// among the Unread ones, with only its Kind, Key, and Version.
	List(ctx context.Context) (informer.List[Object[T]], error)

	// ListPages yields the result of List in the pages of the backend.
	ListPages(ctx context.Context) iter.Seq2[informer.List[Object[T]], error]

	// Select returns the objects that sel selects, in order of key, and the version at which the list is current. The zero Selector
	// selects all objects.
	Select(ctx context.Context, sel Selector) (informer.List[Object[T]], error)

	// Watch yields every change after the given version, in order of version, until the loop breaks or ctx ends. Version zero is
	// before the first change. The version of an event is that of its object. A deletion carries the last state of the object, with
	// the version of the deletion.
	//
	// A bookmark means that nothing else has happened to this kind up to its version. Watch yields a bookmark whenever it has yielded
	// nothing for [backend.BookmarkInterval], even if nothing happens.
	//
	// A Watch that ends by itself yields an error last. The error is [informer.ErrExpired] if some changes after the version are no longer
	// known, or if the store has not reached the version. The former can also happen to a consumer that falls behind. If ctx ends, the
	// error is [context.Cause] of ctx.
	Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]

	// WatchSelected is Watch for the objects that sel selects. An object that enters the selection is Added. An object that leaves it
	// is Deleted, in the state in which it left. For an informer of a
	// selection, see [Selected].
	WatchSelected(ctx context.Context, sel Selector, after informer.Version) iter.Seq2[informer.Event[Object[T]], error]

	// Create stores a new object and returns it as stored. The store sets UID, Version, Generation, and Created; it ignores these
	// fields of obj, and Deleting. If the key is taken, the error is [ErrExists]. To a precondition, an object that does not exist
	// has version 0 and no UID.
	Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Update replaces Value, Labels, Owners, and Finalizers, and returns the object as stored. Update is a compare-and-swap: if
	// obj.Version is not the stored version, or obj.UID is neither empty nor the stored UID, the error is [ErrConflict]. Update
	// ignores Generation, Created, and Deleting of obj. If T has a status, Update keeps the stored status.
	//
	// An Update that changes nothing writes nothing: it causes no event, and returns the object with its old version. If Deleting is
	// set and obj has no Finalizers, Update removes the object and returns its last state.
	Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// UpdateStatus replaces the status in Value and nothing else. It is the same compare-and-swap as Update. If T has no status, the
	// error is [ErrInvalid].
	UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error)

	// Delete removes an object of any version, unless a precondition fails. It returns the last state of the object, with the version
	// of the deletion. If the object has finalizers, Delete only sets Deleting and returns the object; the Update that removes the
	// last finalizer removes the object. A second Delete changes nothing.
	Delete(ctx context.Context, key string, pre ...Precondition) (Object[T], error)

	// LatestVersion returns a version that a watch has reached only if it has yielded every change that was accepted before the call, and
	// that it reaches soon. An informer uses it to catch up: see [informer.Informer.CatchUp].
	LatestVersion(ctx context.Context) (informer.Version, error)

	// RaiseFence makes the backend record the fence of ctx, as a write that changes nothing does: when RaiseFence has returned nil, no write
	// with a lower term of the lease is accepted anymore. A new leader calls it before it reads, so that no write of its predecessors can
	// follow what it has read. A controller does that by itself. Without a fence, RaiseFence does nothing. If a greater term is recorded,
	// the error is [ErrFenced].
	RaiseFence(ctx context.Context) error

	// Equal reports whether a and b are the same version of the same object. An informer calls no handler for an object that is
	// Equal in a new list.
	Equal(a, b Object[T]) bool

	// BookmarkPeriod returns [backend.BookmarkInterval]. An informer uses it to detect a watch that hangs.
	BookmarkPeriod() time.Duration

	// Stats returns the number of fenced writes.
	Stats() Stats
}

// Selector selects objects by the Prefix of the key, such as "shop/" for a namespace, and by Labels. An object must meet all
// requirements. The zero value selects all objects.
type Selector = backend.Query

// Requirement is what a [Selector] requires of one label:
//
//	{Label: "tier"}                                 the object has the label
//	{Label: "tier", Not: true}                      the object does not have the label
//	{Label: "tier", Values: {"front"}}              the label has one of these values
//	{Label: "tier", Values: {"front"}, Not: true}   the label has none of these values, or the object does not have it
type Requirement = backend.Requirement

// Selected returns a source of the objects of s that sel selects, such as those of one tenant. Its informer mirrors only these objects:
//
//	front := store.Selector{Prefix: "shop/"}
//	inf, err := informer.New(store.Selected(apps, front), store.Key, informer.Config{})
//
// The source is an informer.Equaler and Bookmarker. Its bookmarks carry the version of the whole backend, so that an informer reaches
// the version of any write. Selected panics if s is nil.
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

// Open returns the Store of a kind in b. A kind may be opened several times, but only with one T. Open reads and writes nothing in the
// database. It returns an error if cfg or the name of the kind is invalid, or if the codec cannot keep every value of T.
//
// The tag store:"status" works on exported fields of T and of structs that T embeds; deeper in a value it is ignored. Open rejects a tag of
// T that would have no effect.
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
	s.life = lifecycle[T]{status, conditionsIn(t)}
	s.codec = codec[T]{kind, s.cfg.Encode, s.cfg.Decode}
	if s.cfg.Encode == nil {
		if err := strictjson.Check(t); err != nil {
			return fail(err)
		}
		s.codec.encode, s.codec.decode = strictjson.Encode[T], strictjson.Decode[T]
	}
	s.limit = b.Capabilities().MaxBytes
	if err := b.Claim(kind, t); err != nil {
		return fail(err)
	}
	return s, nil
}

// Config is the configuration of a [Store] of values of type T. Its zero value is ready to use.
type Config[T any] struct {
	// Encode and Decode are the codec of values. Decode must restore what Encode was given, and Encode must return the same bytes for the
	// same value. Neither may keep its argument, and both must be safe for concurrent use. Set both or neither. They default to
	// encoding/json; then Open returns an error if JSON does not keep all of T, except for fields with the tag json:"-", and a write of a
	// string that is not UTF-8 is rejected.
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)

	// NewUID returns a UID that it has never returned before. Each Create calls it, without locks, and several may do so concurrently.
	// Objects of two kinds may have the same UID. Defaults to 130 random bits as text. Set it to get the same UIDs in every run of a
	// test.
	NewUID func() string

	// Trace returns the trace context of a write, which becomes Object.Trace, in the form of W3C: the text of the header traceparent and,
	// if there is one, a space and the text of the header tracestate. If the result has more than 1,024 bytes or is not printable ASCII,
	// the object has none. Each write calls Trace once with its context, without locks. An object without a change keeps its Trace. Nil
	// means that objects have none. The method Context in package tracing/otel is such a function.
	Trace func(ctx context.Context) string
}

// Stats is a snapshot of the state of a [Store].
type Stats struct {
	// Fenced counts the writes through this Store that were rejected with [ErrFenced].
	Fenced uint64
}

// withDefaults returns c with defaults for all fields except the codec.
func (c Config[T]) withDefaults() Config[T] {
	if c.NewUID == nil {
		c.NewUID = rand.Text
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
