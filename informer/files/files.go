package files

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// Source is a source of the objects in the files of a directory. The package documentation lists its guarantees. It is an
// [informer.ListWatcher], an [informer.Equaler], an [informer.Bookmarker], and an [informer.Versioner].
//
// Several goroutines may call its methods concurrently. A Source starts no goroutine that outlives a call, except for a read that hangs: see
// Config.ReadTimeout. It reads files only in List, in LatestVersion, and while it is watched.
//
// Invariants, between two comparisons:
//
//  1. tree has every file and directory that the last comparisons have found, and a file has the documents of its last good content.
//  2. Each key of a document is in entries. So is each key whose deletion is pending, until the event of the deletion is in log.
//  3. log has the events from low to version, one each. A consumer that applies them to the list of version low has the states of entries.
type Source[K comparable, T any] struct {
	dir    string
	decode func(path string, data []byte) ([]T, error)
	key    cache.KeyFunc[K, T]
	cfg    Config[T]
	made   time.Time
	reads  reads

	turn  chan struct{} // capacity 1; the goroutine that put a token here may compare, and use the fields up to mu
	nudge chan struct{} // holds a token while a nudge is pending

	id          fs.FileInfo // of the root, in the last comparison; nil before the first
	tree        *directory[K, T]
	dirsChanged int                       // counts the directories that were added and removed
	waiting     map[*file[K, T]]struct{}  // files that must be read soon
	problems    map[string]*Error         // by path: files and directories that cannot be read
	repeated    map[*file[K, T]][]K       // keys that come twice in a file
	entries     map[K]*entry[K, T]        // all objects
	order       []*entry[K, T]            // in the order in which they appeared
	deleted     int                       // of order
	rivals      map[K][]claim[K, T]       // documents whose keys belong to other files
	lacking     []*entry[K, T]            // objects without a file, and some that have one again
	touched     []*entry[K, T]            // during a comparison: those that may have changed
	events      []informer.Event[T]       // during a comparison: what has changed
	missing     []error                   // for lists
	clashed     bool                      // rivals or repeated have changed
	restless    moment                    // when something in the tree was last found to have changed
	again       scope                     // what is to be compared at againAt
	unsettled   int                       // files that have changed and were not read yet
	_           [0]func(Config[T], scope) // not comparable

	looked broadcast.Signal // woken after each comparison
	moved  broadcast.Signal // woken when the directories have changed

	mu sync.Mutex
	// mu guards the following.
	nudged      scope // by Nudge
	version     informer.Version
	low         informer.Version // events after it are in log
	log         []informer.Event[T]
	dirs        []string // the directories; nil before the first comparison
	problemsNow []error
	conflicts   []reported // in the order in which they appeared
	ranks       uint64     // of conflicts ever
	wholeAt     moment     // when the next comparison of the whole tree is due
	againAt     moment     // when the next one of again is due; 0 for none
	failure     error      // of the last comparison; nil if it was good
	slow        time.Duration
	watched     uint64 // comparisons by watches
}

// reported is a conflict that watches report once.
type reported struct {
	conflict
	rank uint64
	err  *Error
}

// New returns a source of the objects in the files below dir. decode returns the objects of a file; path is relative to dir, with slashes. If
// it returns an error, or panics, none of the file is used, and the objects that the file had before stay as they were. A strict decoder finds
// more mistakes: one that refuses unknown and repeated fields, and objects without the required ones. Calls of decode do not overlap. It may
// keep data.
//
// The root need not exist yet. The error of New names each field of cfg that is out of its bounds. New panics if decode or key is nil.
func New[K comparable, T any](
	dir string, decode func(path string, data []byte) ([]T, error), key cache.KeyFunc[K, T], cfg Config[T],
) (*Source[K, T], error) {
	if decode == nil || key == nil {
		panic("files: New needs a decode function and a key function")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("files: new source of %s: %w", dir, err)
	}
	return &Source[K, T]{
		dir: dir, decode: decode, key: key, cfg: cfg,
		made:     time.Now().Add(-1), // so that no moment is 0
		reads:    reads{timeout: cfg.ReadTimeout},
		turn:     make(chan struct{}, 1),
		nudge:    make(chan struct{}, 1),
		tree:     &directory[K, T]{path: "."},
		waiting:  make(map[*file[K, T]]struct{}),
		problems: make(map[string]*Error),
		repeated: make(map[*file[K, T]][]K),
		entries:  make(map[K]*entry[K, T]),
		rivals:   make(map[K][]claim[K, T]),
	}, nil
}

// List compares the whole tree with what is known of it, waits for files that have just changed to rest, and returns all objects in their last
// good states. See Config.Settle and Config.Grace.
func (s *Source[K, T]) List(ctx context.Context) (informer.List[T], error) {
	if err := s.take(ctx); err != nil {
		return informer.List[T]{}, err
	}
	defer s.give()
	if err := s.lookNow(ctx); err != nil {
		return informer.List[T]{}, fmt.Errorf("files: list: %w", err)
	}
	list := informer.List[T]{Items: make([]T, 0, len(s.order)), Missing: s.missing}
	for _, e := range s.order {
		if e.deleted {
			continue
		}
		if e.good != nil {
			list.Items = append(list.Items, e.good.obj)
		}
		if e.err != nil {
			list.Unread = append(list.Unread, informer.Unread[T]{Object: e.doc.obj, Err: e.err})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list.Version = s.version
	return list, nil
}

// LatestVersion compares the whole tree as List does, and returns the version of the result. A file that was written before the call is part
// of it, unless the file does not rest. A deletion is part of it once it is reported: see Config.Grace.
func (s *Source[K, T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	if err := s.take(ctx); err != nil {
		return 0, err
	}
	defer s.give()
	if err := s.lookNow(ctx); err != nil {
		return 0, fmt.Errorf("files: latest version: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, nil
}

// lookNow compares the whole tree, until all files that had changed were read. The caller must have the turn.
func (s *Source[K, T]) lookNow(ctx context.Context) error {
	sc := scope{all: true}
	for {
		if err := s.visit(ctx, sc, false); err != nil {
			return err
		}
		if s.unsettled == 0 {
			return nil
		}
		timer := time.NewTimer(s.until(s.againAtNow()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		sc = s.again
	}
}

// Equal returns the result of Config.Equal.
func (s *Source[K, T]) Equal(a, b T) bool { return s.cfg.Equal(a, b) }

// BookmarkPeriod returns the longest time from the end of one comparison to the end of the next, or 0 if Config.Interval is negative. The source
// measures how long a comparison takes: it is the time of the longest successful one so far, of which each later one forgets a sixteenth.
func (s *Source[K, T]) BookmarkPeriod() time.Duration {
	if s.cfg.Interval < 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	period := s.cfg.Interval + 21*max(s.cfg.Settle, 0) // a List may wait that long
	return period + min(s.slow, math.MaxInt64-period)
}

// Root returns the root directory, as it was given to New.
func (s *Source[K, T]) Root() string { return s.dir }

// Dirs returns the directories in which the source has last found files or other directories, relative to the root, with slashes. The root is
// ".". It is the first, and the result is empty before the first comparison. changed is closed when the directories have changed.
func (s *Source[K, T]) Dirs() (dirs []string, changed <-chan struct{}) {
	changed = s.moved.Next() // before the look at the directories
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dirs), changed
}

// Problems returns what is wrong with the files now: each error is an [*Error]. First come the files and directories that cannot be read, in
// the order of their paths, which are also reasons of [informer.Informer.Unread] and [informer.Informer.Missing]. Then come the documents that do
// not count because another one has their key. Objects that Config.Valid refuses are not among them: see [informer.Informer.AllUnread].
func (s *Source[K, T]) Problems() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.problemsNow)
	for _, c := range s.conflicts {
		all = append(all, c.err)
	}
	return all
}

// Nudge makes a watcher compare some directories now, or the whole tree if it has no arguments, without waiting for the interval. dirs are
// relative to the root, with slashes, such as those of Dirs. New directories below them are part of it. Several nudges before a comparison
// lead to one. A nudge during a comparison leads to another one. A nudge while there is no watcher is kept for the next watcher, unless a List
// comes first.
func (s *Source[K, T]) Nudge(dirs ...string) {
	s.mu.Lock()
	for _, dir := range dirs {
		s.nudged.add(filepath.ToSlash(dir))
	}
	s.nudged.all = s.nudged.all || len(dirs) == 0
	s.mu.Unlock()
	s.wakeNudged()
}

func (s *Source[K, T]) wakeNudged() {
	select {
	case s.nudge <- struct{}{}:
	default: // a nudge is already pending
	}
}

// Watch yields the changes after a version that came from List or Watch of this Source. After a comparison that failed, or a conflict between
// files, it yields an error and goes on: the error has a method Continues, as [informer.ListWatcher] describes. It yields the same error again
// only after a success, or in another watch.
func (s *Source[K, T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		at, failure := after, ""
		var rank, watched uint64 // conflicts up to it were yielded; see news
		yielded := time.Now()
		for looked := false; ; looked = true {
			n, ok := s.since(at, rank)
			if !ok {
				yield(informer.Event[T]{}, fmt.Errorf("files: watch: %w", informer.ErrExpired))
				return
			}
			for _, ev := range n.events {
				if !yield(ev, nil) {
					return
				}
				at = ev.Version
			}
			for _, c := range n.conflicts {
				rank = c.rank
				if !yield(informer.Event[T]{}, goesOn{c.err}) {
					return
				}
			}
			switch {
			case !looked:
			case n.failure == nil:
				failure = ""
				// Not after each List: a consumer that lists for each bookmark would never end.
				bookmark := n.watched != watched || s.cfg.Interval > 0 && time.Since(yielded) >= s.cfg.Interval
				if len(n.events) == 0 && bookmark && !yield(informer.Event[T]{Type: informer.Bookmark, Version: at}, nil) {
					return
				}
				if len(n.events) > 0 || bookmark {
					yielded = time.Now()
				}
			case n.failure.Error() != failure:
				failure = n.failure.Error()
				if !yield(informer.Event[T]{}, goesOn{n.failure}) {
					return
				}
			}
			watched = n.watched
			if err := s.await(ctx, n.looked); err != nil {
				yield(informer.Event[T]{}, err)
				return
			}
		}
	}
}

// news is what a watcher has not yielded yet.
type news[T any] struct {
	events    []informer.Event[T]
	conflicts []reported
	failure   error           // of the last comparison
	watched   uint64          // comparisons by watches
	looked    <-chan struct{} // closed after the next comparison
}

// since returns the news after a version and the rank of a conflict. It reports whether they are in the log.
func (s *Source[K, T]) since(after informer.Version, rank uint64) (n news[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < s.low || after > s.version {
		return n, false
	}
	n = news[T]{events: s.log[after-s.low : len(s.log) : len(s.log)], failure: s.failure, watched: s.watched, looked: s.looked.Next()}
	i, _ := slices.BinarySearchFunc(s.conflicts, rank+1, func(c reported, rank uint64) int { return int(c.rank) - int(rank) })
	n.conflicts = slices.Clone(s.conflicts[i:])
	return n, true
}

// setConflictsLocked makes these the conflicts. Those that were there keep their ranks.
func (s *Source[K, T]) setConflictsLocked(now map[conflict]*Error) {
	s.conflicts = slices.DeleteFunc(s.conflicts, func(c reported) bool {
		err, stays := now[c.conflict]
		if stays = stays && err.Error() == c.err.Error(); stays {
			delete(now, c.conflict)
		}
		return !stays
	})
	var added []reported
	for c, err := range now {
		added = append(added, reported{conflict: c, err: err})
	}
	slices.SortFunc(added, func(a, b reported) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.key, b.key)) })
	for _, c := range added {
		s.ranks++
		c.rank = s.ranks
		s.conflicts = append(s.conflicts, c)
	}
}

// await returns nil when looked is closed. Until then, it compares whenever a comparison is due or Nudge is called. Its error is the cause of
// ctx.
func (s *Source[K, T]) await(ctx context.Context, looked <-chan struct{}) error {
	for ctx.Err() == nil && !broadcast.IsClosed(looked) {
		nudged := s.idle(ctx, looked)
		err := s.take(ctx)
		if err == nil {
			if sc := s.due(); !broadcast.IsClosed(looked) && ctx.Err() == nil && !sc.isNone() {
				_ = s.visit(ctx, sc, true) // Watch yields the error
			} else if nudged {
				s.wakeNudged() // for another watcher, or for this one after it has yielded what the other has found
			}
			s.give()
		} else if nudged {
			s.wakeNudged()
		}
	}
	return context.Cause(ctx)
}

// idle waits until a comparison is due, Nudge is called, looked is closed, or ctx ends.
func (s *Source[K, T]) idle(ctx context.Context, looked <-chan struct{}) (nudged bool) {
	timer := time.NewTimer(s.untilDue())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.nudge:
		nudged = true
	case <-looked:
	case <-ctx.Done():
	}
	return nudged
}

// due returns what is to be compared now. The caller must have the turn.
func (s *Source[K, T]) due() (sc scope) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.join(s.nudged)
	sc.all = sc.all || s.cfg.Interval > 0 && now >= s.wholeAt
	if s.againAt != 0 && now >= s.againAt {
		sc.join(s.again)
	}
	return sc
}

// visit compares sc, and what Nudge has named. If it fails because ctx has ended, there has been no comparison for the others: what was nudged
// stays nudged. The caller must have the turn.
func (s *Source[K, T]) visit(ctx context.Context, sc scope, watching bool) error {
	s.mu.Lock()
	nudged := s.nudged
	s.nudged = scope{}
	s.mu.Unlock()
	select {
	case <-s.nudge:
	default:
	}
	sc.join(nudged)
	began := time.Now()
	err := s.look(ctx, sc)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.nudged.join(nudged)
		if ctx.Err() != nil {
			if !nudged.isNone() {
				s.wakeNudged()
			}
			return err
		}
		s.wholeAt = s.now() + moment(max(s.cfg.Interval, 0))
		if s.againAt != 0 {
			s.againAt = max(s.againAt, s.now()+moment(time.Second))
		}
	} else {
		s.slow = max(time.Since(began), s.slow-s.slow/16)
	}
	if watching {
		s.watched++
	}
	s.failure = err
	s.looked.Wake()
	return err
}

// untilDue returns the time until a comparison is due.
func (s *Source[K, T]) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.againAt
	if s.cfg.Interval > 0 && (at == 0 || s.wholeAt < at) {
		at = s.wholeAt
	}
	return s.until(at)
}

func (s *Source[K, T]) againAtNow() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.againAt
}

// until returns the time until a moment, or forever if it is none.
func (s *Source[K, T]) until(at moment) time.Duration {
	if at == 0 {
		return math.MaxInt64
	}
	return time.Duration(at - s.now())
}

func (s *Source[K, T]) now() moment { return moment(time.Since(s.made)) }

// take waits for the turn, unless ctx ends first.
func (s *Source[K, T]) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// give releases the turn.
func (s *Source[K, T]) give() { <-s.turn }
