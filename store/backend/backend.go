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

	// MaxKind and MaxKey are the greatest lengths of a kind and of a key, in bytes. The name of a lease is as long as a
	// key at most.
	MaxKind = 128
	MaxKey  = 1024
)

// Backend keeps records under a kind and a key. Its methods may be called by several goroutines at once. The versions and
// the promises that all of them rest on are in the documentation of the package.
//
// A context that has ended ends every call, with [context.Cause] of it, wrapped or not.
type Backend interface {
	// Get returns the record under key, the tombstone of a deleted record while the backend keeps it, or the zero Record.
	// It sees every write that was acknowledged before, in any process.
	Get(ctx context.Context, kind, key string) (Record, error)

	// List yields the records of a kind that q selects, in order of key, page by page. Tombstones are left out. It yields
	// at least one page, and the same version on all: that at which the whole list is current. It may leave out records
	// that do not match q.Labels or not, as suits it; the engine looks again. The last pair may be an error alone.
	//
	// The list and its version come from one snapshot. A version that is read after the records promises changes that the
	// list has not seen.
	List(ctx context.Context, kind string, q Query) iter.Seq2[Page, error]

	// Watch yields every change of a kind after the given version, in order of version, and goes on until ctx ends or the
	// consumer leaves its loop. Zero stands for the time before the first change. It may leave out changes that do not
	// [Query.Concern] q; the engine looks again.
	//
	// It yields a bookmark soon after a change that it leaves out, of this kind or another, and in any case when it has
	// yielded nothing for [BookmarkInterval], although nothing has happened. The version of a bookmark promises that
	// everything of the kind up to it was yielded: no commit may land at or below it afterwards.
	//
	// The last pair is an error alone: [ErrExpired] when the changes after the version are not all known any more, at the
	// beginning or in the middle, and when the backend has not reached that version; [context.Cause] when ctx has ended;
	// any other error when the watch broke, and may be taken up again after the last version that it yielded.
	Watch(ctx context.Context, kind string, q Query, after informer.Version) iter.Seq2[Change, error]

	// Transact reads the record under key, has decide say what it becomes, and writes that, as one transaction. Or it
	// reads, decides, and compares and swaps; and all of it again while somebody else was faster. It returns the record as
	// written, or as it was found when nothing was to be written.
	//
	// It first checks the fences: if a greater term of one of the leases was recorded, by any accepted Transact of any
	// kind, it returns a [*FencedError] and does not decide. With an accepted write, also one that has nothing to write,
	// it records the terms that are greater than those recorded. The check, the reading, the write and the recording are
	// one transaction. A fence is a record of the backend's own: it is no record of any kind.
	//
	// There is at most one fence of a lease. If there is none, nothing is checked or recorded.
	Transact(ctx context.Context, kind, key string, fences []Fence, decide Decide) (Record, error)

	// Capabilities says what this backend can and cannot do. It never changes.
	Capabilities() Capabilities

	// Claim says that values of a kind are of a type. It is the method of [Kinds], which a backend embeds.
	Claim(kind string, of reflect.Type) error
}

// Decide says what becomes of a record. It gets what is under the key: the record, a tombstone, or the zero Record. It
// returns what to write, or nil for nothing. Its Key and Version are ignored. A Record that is Deleted is a deletion: it is
// kept as a tombstone, whose content is the last state, and leaves the List.
//
// An error ends the Transact, which returns it as it is and writes nothing.
//
// Decide is quick and pure: it may be called several times, each time with the record of that moment, and the last call
// counts. It calls no backend. It does not change or keep the bytes and maps of the record, and nobody changes those
// that it returns.
type Decide func(have Record) (next *Record, err error)

// Record is what a backend keeps under a kind and a key.
type Record struct {
	Key string

	// Version is that of the write. Zero means that there is no record.
	Version informer.Version

	// Deleted marks a tombstone: the record was deleted by the write of this version, and its content is the last state.
	// A backend keeps a tombstone for at least as long as it could begin a watch from before it, and gives it to decide
	// for as long. When it forgets a tombstone, requests that were repeated since are applied again.
	Deleted bool

	// Labels are those of the object, for queries. Before are those that it had before this write; it is nil, which is not
	// the same as empty, if they did not change or there was no object. A backend stores both, whether it queries them or
	// not.
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
	// Record is what was written, also a tombstone. A record without a key makes the change a bookmark.
	Record Record

	// Version is that after which a watch can begin that goes on from here. It is the version of the record, unless several
	// records have one version: then it is that version for the last of them, and one that is less for the others.
	Version informer.Version
}

// Capabilities are what differs between backends that are all right. The suite reads them.
type Capabilities struct {
	// Skips says that a Watch may leave out a write that another write of the same key has followed, so that only its last
	// state is told. Deletions are never left out.
	Skips bool

	// MaxBytes is the greatest size of a record: its Meta, its Value, and the strings of its labels together. The engine
	// refuses larger ones. Zero means that the backend knows no limit of its own; it may still return [ErrTooLarge].
	MaxBytes int

	// Joins says that a write can join a transaction of the caller, so that objects and business rows commit together.
	//
	// Such a backend exports a function that puts a transaction into a context, such as postgres.WithTx(ctx, tx). Under this context
	// Get and Transact work inside that transaction. Transact does not commit. It calls decide once for each attempt that
	// the transaction allows, and returns the error of the driver when the caller has to begin again. If the version is one of a
	// counter, the counter stays locked until the caller commits. Watch and List ignore the transaction. The engine hands contexts
	// on with all their values, so it needs to know nothing of this.
	Joins bool
}
