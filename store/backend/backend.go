package backend

import (
	"context"
	"iter"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

const (
	// BookmarkInterval is the longest time for which a [Backend.Watch] may yield nothing.
	BookmarkInterval = 5 * time.Second

	// MaxKind and MaxKey are the greatest lengths of a kind and of a key, in bytes. The name of a lease is at most as long as a key.
	MaxKind = 128
	MaxKey  = 1024
)

// Backend keeps records under a kind and a key. Several goroutines may call its methods concurrently. The package documentation defines
// versions, and the promises of all methods.
//
// A context that has ended ends every call, with [context.Cause] of it, wrapped or not.
type Backend interface {
	// Get returns the record under key, the tombstone of a deleted record while the backend keeps it, or the zero Record. It sees every
	// write that was acknowledged earlier, in any process.
	Get(ctx context.Context, kind, key string) (Record, error)

	// List yields the records of a kind that q selects, in order of key, page by page. Tombstones are left out. It yields at least one
	// page, and all pages have the same version, at which the whole list is current. It may include records that do not match q.Labels,
	// because the engine filters again. The last pair may be an error with a zero Page.
	//
	// The list and its version come from one snapshot. A version that is read after the records would promise changes that the list does
	// not show.
	List(ctx context.Context, kind string, q Query) iter.Seq2[Page, error]

	// Watch yields every change of a kind after the given version, in order of version, until ctx ends or the consumer leaves its loop.
	// Zero means before the first change. It may leave out changes that do not [Query.Concern] q, or include them, because the engine
	// filters again.
	//
	// It yields a bookmark soon after a change that it leaves out, in this kind or another. It also yields one whenever it has
	// yielded nothing for [BookmarkInterval], even if nothing has happened. The version of a bookmark promises that every change to
	// the kind up to it was yielded: no later commit may appear at or below it.
	//
	// The last pair is an error with a zero Change: [ErrExpired] if some changes after the version are no longer known, at the beginning or
	// later, or if the backend has not reached that version; [context.Cause] if ctx has ended; any other error if the watch broke and may
	// be resumed after the last version that it yielded.
	Watch(ctx context.Context, kind string, q Query, after informer.Version) iter.Seq2[Change, error]

	// Transact reads the record under key, calls decide for its next state, and writes that, all in one transaction. Alternatively, it
	// reads, decides, and does a compare-and-swap, and repeats all of it if another writer was faster. It returns the record as written, or
	// as read if there is nothing to write.
	//
	// It first checks the fences. If any accepted Transact, of any kind, has recorded a greater term of one of the leases, it returns a
	// [*FencedError] and does not decide. With an accepted call, even one with nothing to write, it records each term that is greater than
	// the recorded one. The check, the read, the write, and the recording are one transaction. The backend stores fences itself: a fence is
	// not a record of any kind.
	//
	// There is at most one fence of a lease, and the fences are in order of lease, so a backend may lock the terms one by one without a
	// deadlock. If there is no fence, nothing is checked or recorded.
	Transact(ctx context.Context, kind, key string, fences []Fence, decide Decide) (Record, error)

	// Capabilities returns what this backend can and cannot do. The result never changes.
	Capabilities() Capabilities

	// Claim declares the type of the values of a kind. It is the method of [Kinds], which a backend embeds.
	Claim(kind string, of reflect.Type) error
}

// Versioner is an optional interface of a [Backend]: it can tell its latest version without a list. For any other backend, the engine begins
// a list and reads its version.
type Versioner interface {
	// Version returns the version of the last change of any kind, or a later one. A watch that has reached it has yielded every change of
	// its kind that was acknowledged before the call. It is as recent as a List that begins now.
	Version(ctx context.Context) (informer.Version, error)
}

// Decide returns the next state of a record. It gets the content of the key: the record, a tombstone, or the zero Record. It returns the
// record to write, or nil to write nothing. The Key and Version of next are ignored. A next that is Deleted is a deletion: it is kept as a
// tombstone, whose content is the last state, and is no longer in the List.
//
// An error ends the Transact, which returns it unchanged and writes nothing.
//
// A Decide must be fast and pure: it may be called several times, each time with the current record, and the last call counts. It must not
// call the backend. It must not change or keep the bytes and maps of have, and those of next must not change afterward.
type Decide func(have Record) (next *Record, err error)

// Record is the data that a backend keeps under a kind and a key.
type Record struct {
	Key string

	// Version is that of the write. Zero means that there is no record.
	Version informer.Version

	// Deleted marks a tombstone: the record was deleted by the write of this version, and its content is the last state. A backend keeps a
	// tombstone, and passes it to decide, for at least as long as a watch can start from before it.
	Deleted bool

	// Labels are the labels of the object, for queries. Before are its labels before this write. Before is nil, which differs from empty,
	// if they did not change or there was no object. A backend stores both, even if it does not query them.
	Labels, Before map[string]string

	Meta  []byte // the envelope of the object, JSON; opaque to the backend
	Value []byte // the value of the object, by the codec of its kind
}

// Page is a part of a list.
type Page struct {
	Records []Record
	Version informer.Version // at which the whole list is current; the same on all pages
}

// Change is one write, or a bookmark.
type Change struct {
	// Record is the written record, which may be a tombstone. A record without a key makes the change a bookmark.
	Record Record

	// Version is the version after which a watch can resume from here. It is the version of the record, unless several records have the
	// same version: then only the last of them has that version here, and the others have a lower one.
	Version informer.Version
}

// Capabilities are the permitted differences between backends. The suite reads them.
type Capabilities struct {
	// MaxBytes is the greatest size of a record: its Meta, its Value, and the strings of its labels together. The engine rejects larger
	// ones. Zero means that the backend declares no limit; it may still return [ErrTooLarge].
	MaxBytes int

	// Joins means that a write can join a transaction of the caller, so that objects and business rows commit together.
	//
	// Such a backend exports a function that puts a transaction into a context, such as postgres.WithTx(ctx, tx). Under this context Get
	// and Transact work inside that transaction. Transact does not commit. It calls decide once for each attempt that the transaction
	// allows, and returns the error of the driver if the caller must start over. If versions come from a counter, the counter stays locked
	// until the caller commits. Watch and List ignore the transaction. The engine passes contexts on with all their values, so it needs no
	// knowledge of this.
	Joins bool
}
