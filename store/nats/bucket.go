package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// BucketConfig names the bucket of a [Bucket]. Only Bucket is required.
type BucketConfig struct {
	// Bucket is the name of the bucket, as in jetstream.KeyValueConfig. All its keys belong to the source.
	Bucket string

	// Poll is how often a watch asks the server for the state of the bucket. Changes do not wait for Poll. A key that has vanished without
	// a message does, and so do readers who wait for a version that changes no key. The watches of one Bucket share the requests. Values
	// above 1 s count as 1 s. Defaults to 100 ms.
	Poll time.Duration

	// Verify is how often a watch compares all keys and their revisions with the bucket, if the bucket can change without a message: see
	// [Bucket]. The server sends no values for that. Defaults to 1 min.
	Verify time.Duration

	// Timeout limits how long a request waits for the reply of the server. While no server answers for JetStream, as in an election of a
	// cluster, NewBucket asks again for as long. Defaults to 5 s.
	Timeout time.Duration

	// Logger receives a warning for each way in which the bucket can change without a message. Defaults to slog.Default().
	Logger *slog.Logger

	_ [0]func()
}

func (c BucketConfig) withDefaults() BucketConfig {
	c.Poll = cmp.Or(c.Poll, 100*time.Millisecond)
	c.Verify = cmp.Or(c.Verify, time.Minute)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c BucketConfig) validate() error {
	var errs []error
	switch {
	case c.Bucket == "":
		errs = append(errs, errors.New("BucketConfig.Bucket is empty"))
	case !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(c.Bucket):
		errs = append(errs, fmt.Errorf("BucketConfig.Bucket is %q, must be letters, digits, - and _", c.Bucket))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("BucketConfig.Poll is %v, must not be negative", c.Poll))
	}
	if c.Verify < 0 {
		errs = append(errs, fmt.Errorf("BucketConfig.Verify is %v, must not be negative", c.Verify))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("BucketConfig.Timeout is %v, must not be negative", c.Timeout))
	}
	return problems.Join(errs...)
}

// Bucket is a source made of a key-value bucket of your own, for informer.New: all its keys and values, whoever writes them. It is an
// [informer.ListWatcher], an [informer.Pager], an [informer.Bookmarker], and an [informer.Versioner]. It needs permission to read the
// bucket, and writes nothing. All methods are safe for concurrent use.
//
//  1. A version is a sequence of the stream of the bucket, which is the revision that Put, Create, and Update return. So versions can be
//     compared with the revisions of your own writes. A mirror has the revisions of its origin. A bucket with sources has revisions of its
//     own.
//  2. A watch reports the last state of each key, in order of revision, and every deletion: by Delete, by Purge, and by the marker that the
//     server leaves for a key that has expired. It may skip a state that a later one has replaced, because the bucket may no longer have it.
//  3. All pages of a list are of one version, and show every write that was acknowledged before the list began.
//  4. A value that decode refuses is unread: see [informer.Informer.Unread]. It is never a deletion. If decode returns its key, as [NewBucket]
//     asks, it affects no other key.
//  5. A deletion has only the key, because a marker has no value: see [informer.Event.KeyOnly].
//  6. A key that vanishes without a message is reported as deleted, after [BucketConfig.Poll] or a little later. Keys vanish like that if
//     they expire in a bucket without LimitMarkerTTL, if the stream is purged or discards old messages, and if a marker was removed while
//     no watch was open.
//  7. An older value that comes back without a message is reported as a change, after [BucketConfig.Verify] or a little later. That happens
//     if a bucket with a history has values with a TTL of their own, or permits that single messages are deleted: the last value goes, the
//     one before it counts again, and the server sends nothing. It may also be a marker: then the key is deleted.
//  8. A watch does not go on in another history. It ends with [informer.ErrNewHistory] if the bucket was deleted and created again, or if
//     it has not reached that version, or has another message there, because it was restored from a backup.
//  9. A bookmark of a version comes after all events up to it. An idle bucket has bookmarks too.
//  10. If the consumer of a watch is lost or stuck on the server, messages are lost in transit, or the leader of a replicated bucket moves,
//     the watch goes on with another consumer, after it has compared all keys and their revisions with the bucket.
//
// Versions do not tell what has vanished. So a Bucket remembers which keys, with which revisions, its lists and watches have reported, about
// a hundred bytes for each key beside the key itself. A watch that begins at a version at which no list and no watch of this Bucket has
// ended keeps promises 6 and 7 in another way: after Verify, it ends once with [informer.ErrExpired]. The watches of an [informer.Informer]
// begin at such versions only if its context was interrupted.
//
// Each key of the bucket is one object. So the key of the informer must depend on nothing but the key in the bucket. To leave keys out,
// return an object without an error for them too, and use [informer.Filter].
type Bucket[T any] struct {
	handle
	api    string // the prefix of the subjects of JetStream
	cfg    BucketConfig
	decode func(jetstream.KeyValueEntry) (T, error)
	mirror bool

	progress progress[bucketPosition]
	memory   memory
}

// NewBucket returns the source of the keys of a bucket. It returns an error if a field of cfg is invalid, if the bucket does not exist, or if
// its stream cannot be read as a bucket.
//
// decode makes an object of a key and its value, such as by json.Unmarshal. The Revision and the others are there too; the Operation is
// always a put. Several goroutines call decode concurrently. It may keep the bytes, and must not change them.
//
// If decode returns an error, the object is unread, and a cache keeps the state that it has. NewBucket then needs the key of that object. It
// calls decode again, with an entry that has nothing but its Key and its Bucket, and takes from the result the fields that make up the key,
// whether or not there is an error. So take these fields from Key, and return them with every error:
//
//	func(e jetstream.KeyValueEntry) (App, error) {
//		var app App
//		err := json.Unmarshal(e.Value(), &app)
//		app.Name = e.Key()
//		return app, err
//	}
//
// It does the same for a deletion. If that result is the zero T, or decode panics, the key is not known: a list has the error in
// [informer.List.Missing], so that a cache deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer lists.
//
// NewBucket starts nothing. It does not take over the connection. Close the connection after all calls have returned.
func NewBucket[T any](
	ctx context.Context, js jetstream.JetStream, decode func(jetstream.KeyValueEntry) (T, error), cfg BucketConfig,
) (*Bucket[T], error) {
	if js == nil || decode == nil {
		panic("nats: NewBucket called with a nil JetStream or decode")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("nats: new bucket: %w", err)
	}
	b := &Bucket[T]{
		handle: handle{nc: js.Conn(), timeout: cfg.Timeout}, api: apiPrefix(js.Options()), cfg: cfg, decode: decode,
		progress: progress[bucketPosition]{turn: make(chan struct{}, 1)},
	}
	err := whenAvailable(ctx, cfg.Timeout, func() error {
		return within(ctx, cfg.Timeout, func(ctx context.Context) (err error) {
			b.stream, err = js.Stream(ctx, "KV_"+cfg.Bucket)
			return err
		})
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errors.New("it does not exist")
	}
	if err == nil {
		err = whenAvailable(ctx, cfg.Timeout, func() error {
			_, err := b.position(ctx, time.Now())
			return err
		})
	}
	if err != nil {
		return nil, b.failed(ctx, "new", err)
	}
	have := b.stream.CachedInfo().Config
	b.mirror = have.Mirror != nil
	for _, s := range silences(have) {
		seen := min(cfg.Poll, maxPoll)
		if s.returns {
			seen = cfg.Verify
		}
		cfg.Logger.WarnContext(ctx, "a bucket can change without a message", "bucket", cfg.Bucket, "reason", s.reason, "seen_after", seen)
	}
	return b, nil
}

// apiPrefix returns the prefix of the subjects of JetStream.
func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}

func (b *Bucket[T]) failed(ctx context.Context, doing string, err error) error {
	return failed(ctx, fmt.Sprintf("%s bucket %q", doing, b.cfg.Bucket), err)
}

// checkBucket returns an error if a stream cannot be read as a bucket.
func checkBucket(have jetstream.StreamConfig) error {
	var errs []error
	if have.Retention != jetstream.LimitsPolicy {
		errs = append(errs, fmt.Errorf("its retention is %v, must be limits", have.Retention))
	}
	if have.AllowMsgCounter {
		errs = append(errs, errors.New("its messages are counters (allow_msg_counter)"))
	}
	return problems.Join(errs...)
}

// silence is a way in which a bucket changes without a message.
type silence struct {
	reason  string
	returns bool // an older value may come back, so that as many subjects are left
}

// silences returns the ways in which a bucket may change without a message. Anybody who may purge a stream has one more.
func silences(have jetstream.StreamConfig) (all []silence) {
	history := have.MaxMsgsPerSubject != 1
	marked := have.SubjectDeleteMarkerTTL > 0
	add := func(when, returns bool, reason string) {
		if when {
			all = append(all, silence{reason, returns})
		}
	}
	add(have.MaxAge > 0 && !marked, false, "keys expire without a marker: it has a TTL (max_age) and no LimitMarkerTTL (subject_delete_marker_ttl)")
	add(have.AllowMsgTTL && !marked, false, "keys with a TTL expire without a marker: it has no LimitMarkerTTL (subject_delete_marker_ttl)")
	add(have.AllowMsgTTL && history, true, "it has a history (max_msgs_per_subject), so a key with a TTL (allow_msg_ttl) that expires gets its older value")
	add(have.Discard == jetstream.DiscardOld && (have.MaxBytes > 0 || have.MaxMsgs > 0), false, "it discards old keys if it is full (discard)")
	add(!have.DenyDelete, history, "single messages may be deleted (deny_delete)")
	return all
}

// bucketPosition is the state of a bucket at one time.
type bucketPosition struct {
	asked time.Time // the server answered after that

	created  time.Time // the stream
	last     uint64    // sequence
	subjects uint64    // that have messages
	silent   bool      // it can change without a message
}

func (p bucketPosition) askedAt() time.Time { return p.asked }

// position returns a position that the server had at or after the given time.
func (b *Bucket[T]) position(ctx context.Context, since time.Time) (bucketPosition, error) {
	return b.progress.read(ctx, since, func(ctx context.Context, last bucketPosition) (p bucketPosition, err error) {
		p.asked = time.Now()
		var info *jetstream.StreamInfo
		if err := b.request(ctx, func(ctx context.Context) (err error) {
			info, err = b.stream.Info(ctx)
			return err
		}); err != nil {
			return p, err
		}
		p.created, p.last, p.subjects = info.Created, info.State.LastSeq, info.State.NumSubjects
		p.silent = len(silences(info.Config)) > 0
		if !last.asked.IsZero() && !p.created.Equal(last.created) {
			b.memory.restarted()
		}
		return p, checkBucket(info.Config)
	})
}

// BookmarkPeriod implements [informer.Bookmarker].
func (b *Bucket[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

// LatestVersion implements [informer.Versioner]. Use it to wait for a Delete or a Purge of your own, which return no revision.
func (b *Bucket[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	p, err := b.position(ctx, time.Now())
	if err != nil {
		return 0, b.failed(ctx, "read the latest version of", err)
	}
	return informer.Version(p.last), nil
}

// clockKind is the kind of the clock of all buckets.
const clockKind = "nats revision"

// bucketID identifies a history of a bucket.
type bucketID struct {
	bucket  string
	created int64
}

func (b *Bucket[T]) id() bucketID { return bucketID{b.cfg.Bucket, b.progress.get().created.UnixNano()} }

// Clock identifies the counter of the versions of b. A controller compares clocks to know which of its caches show a write.
func (b *Bucket[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: clockKind, DB: b.id()} }

// Wrote tells the controller whose reconcile has the context ctx that this reconcile has written to the bucket, with the revision that the
// client has returned:
//
//	revision, err := kv.Update(ctx, app.Name, value, app.Revision)
//	...
//	apps.Wrote(ctx, revision)
//
// The controller then does not reconcile the key again until its caches of this bucket have seen that revision, or until 10 s have passed
// since the reconcile has ended: see controller.Config.StaleReads. Outside a reconcile, Wrote does nothing. A writer of an origin calls it
// for a [Bucket] of the origin or of a mirror; revisions of an origin mean nothing in a bucket that has it as a source.
func (b *Bucket[T]) Wrote(ctx context.Context, revision uint64) {
	reconcile.ReportWrite(ctx, clockKind, b.id(), revision)
}

// bucketEntry is what decode gets.
type bucketEntry struct {
	bucket, key string
	value       []byte
	revision    uint64
	delta       uint64
	created     time.Time
}

func (e *bucketEntry) Bucket() string                  { return e.bucket }
func (e *bucketEntry) Key() string                     { return e.key }
func (e *bucketEntry) Value() []byte                   { return e.value }
func (e *bucketEntry) Revision() uint64                { return e.revision }
func (e *bucketEntry) Created() time.Time              { return e.created }
func (e *bucketEntry) Delta() uint64                   { return e.delta }
func (e *bucketEntry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// object decodes the value of a message. A panic of decode is an error.
func (b *Bucket[T]) object(key string, m *message) (obj T, err error) {
	obj, err = b.call(&bucketEntry{b.cfg.Bucket, key, m.data, m.sequence, m.pending, m.stored})
	if err != nil {
		return obj, fmt.Errorf("the value of %q of version %d: %w", key, m.sequence, err)
	}
	return obj, nil
}

// keyOnly returns an object with only its key. It returns false if decode does not return that.
func (b *Bucket[T]) keyOnly(key string) (obj T, known bool) {
	obj, _ = b.call(&bucketEntry{bucket: b.cfg.Bucket, key: key})
	return obj, !reflect.ValueOf(&obj).Elem().IsZero()
}

func (b *Bucket[T]) call(e *bucketEntry) (obj T, err error) {
	err = wait.Call(context.Background(), func(context.Context) (err error) {
		obj, err = b.decode(e)
		return err
	})
	return obj, err
}

// keyOf returns the key of a subject, or false if the subject is not of the bucket. The messages of a mirror have the subjects of its origin.
func (b *Bucket[T]) keyOf(subject string) (key string, ok bool) {
	if rest, ok := strings.CutPrefix(subject, "$KV."); ok {
		bucket, key, _ := strings.Cut(rest, ".")
		return key, key != "" && (b.mirror || bucket == b.cfg.Bucket)
	}
	return "", false
}

// ListPages implements [informer.Pager]. A page has at most 1,000 objects.
func (b *Bucket[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		s, err := b.snapshot(ctx, false)
		if err != nil {
			yield(informer.List[T]{}, b.failed(ctx, "list", err))
			return
		}
		b.memory.keep(s.version, s.has)
		for first := true; first || len(s.values) > 0; first = false {
			n := min(pageSize, len(s.values))
			page := informer.List[T]{Version: s.version, Items: make([]T, 0, n)}
			for i := range s.values[:n] {
				b.add(&page, &s.values[i])
				s.values[i] = message{} // so that a list of a million is not held twice
			}
			s.values = s.values[n:]
			if !yield(page, nil) {
				return
			}
		}
	}
}

// add adds the object of a message to a page.
func (b *Bucket[T]) add(page *informer.List[T], m *message) {
	key, ok := b.keyOf(m.subject)
	if !ok {
		return
	}
	obj, err := b.object(key, m)
	if err == nil {
		page.Items = append(page.Items, obj)
	} else if obj, known := b.keyOnly(key); known {
		page.Unread = append(page.Unread, informer.Unread[T]{Object: obj, Err: err})
	} else {
		page.Missing = append(page.Missing, err)
	}
}

// List implements [informer.ListWatcher].
func (b *Bucket[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(b.ListPages(ctx))
}
