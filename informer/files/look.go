package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// scope is what a comparison looks at.
type scope struct {
	all  bool            // the whole tree
	dirs map[string]bool // these directories, and what is new below them
}

func (sc *scope) isNone() bool { return !sc.all && len(sc.dirs) == 0 }

func (sc *scope) add(dir string) {
	if sc.dirs == nil {
		sc.dirs = make(map[string]bool)
	}
	sc.dirs[dir] = true
}

func (sc *scope) join(other scope) {
	sc.all = sc.all || other.all
	for dir := range other.dirs {
		sc.add(dir)
	}
}

// look compares files with what is known of them, and makes the result known. It first reads everything, and then records all of it at once:
// if it fails, or ctx ends, nothing has changed. The caller must have the turn.
func (s *Source[K, T]) look(ctx context.Context, sc scope) error {
	const tries = 3
	for try := 1; ; try++ {
		st, err := s.gather(ctx, sc)
		switch {
		case err == nil:
			s.commit(st)
			return nil
		case !errors.Is(err, errReplaced) || try == tries:
			return err
		}
		sc = scope{all: true}
	}
}

// stage is what one comparison has read.
type stage[K comparable, T any] struct {
	all   bool
	id    fs.FileInfo // of the root
	plans []*plan[K, T]
}

// gather reads the files of a scope. It changes nothing of s.
func (s *Source[K, T]) gather(ctx context.Context, sc scope) (*stage[K, T], error) {
	var r *root
	err := s.reads.do(ctx, ".", func(func()) (err error) {
		r, err = openRoot(s.dir)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.dir, cause(err))
	}
	defer r.Close()
	st := &stage[K, T]{all: sc.all || s.id == nil, id: r.id}
	if !st.all && !os.SameFile(s.id, r.id) {
		st.all = true // every directory is another one
	}
	if err := s.scan(ctx, r, st, sc.dirs); err != nil {
		return nil, err
	}
	if s.isEmpty(st) && !s.cfg.Empty {
		return nil, fmt.Errorf("%s: %w", s.dir, errNoFiles)
	}
	for _, p := range st.plans {
		for _, step := range p.steps {
			if err := s.read(ctx, r, step); err != nil {
				return nil, err
			}
		}
	}
	if err := s.reads.do(ctx, ".", func(func()) error { return r.verify(st.links()) }); err != nil {
		return nil, fmt.Errorf("%s: %w", s.dir, cause(err))
	}
	return st, nil
}

// scan lists the directories of a comparison, and compares the listings with what is known.
func (s *Source[K, T]) scan(ctx context.Context, r *root, st *stage[K, T], dirs map[string]bool) error {
	var todo []place[K, T] // a stack, so that the directories come in their order
	if st.all {
		todo = append(todo, place[K, T]{s.tree, "."})
	} else {
		places := make(map[string]place[K, T])
		for dir := range dirs {
			d := s.tree.find(dir)
			places[d.path] = place[K, T]{d, d.path}
		}
		for _, dir := range slices.Sorted(maps.Keys(places)) {
			todo = append(todo, places[dir])
		}
		slices.Reverse(todo)
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var got *listing
		err := s.reads.do(ctx, at.path, func(tick func()) error {
			got = r.list(at.path, s.cfg.Match, tick)
			return nil
		})
		l := &listing{path: at.path, err: err}
		if err == nil { // otherwise got may still change
			l = got
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(l.err, fs.ErrNotExist) && !st.all:
			return errReplaced // it has vanished with all that is below it, which its parent shows
		}
		if l.err != nil && at.path == "." {
			return fmt.Errorf("%s: %w", s.dir, cause(l.err))
		}
		p := compare(at.dir, l)
		st.plans = append(st.plans, p)
		for _, name := range slices.Backward(l.subs) {
			below := place[K, T]{path: path.Join(l.path, name)}
			var known bool
			if at.dir != nil {
				below.dir, known = at.dir.sub(name)
			}
			if st.all || !known {
				todo = append(todo, below)
			}
		}
	}
	return nil
}

// place is a directory to list. dir is nil if it is new.
type place[K comparable, T any] struct {
	dir  *directory[K, T]
	path string
}

// isEmpty reports whether the tree will have no files.
func (s *Source[K, T]) isEmpty(st *stage[K, T]) bool {
	left := 0
	s.tree.walk(func(*file[K, T]) { left++ })
	for _, p := range st.plans {
		if p.listing.err != nil || len(p.failing) > 0 {
			return false
		}
		for _, step := range p.steps {
			switch {
			case step.vanished:
				left--
			case step.file == nil:
				left++
			}
		}
		if p.dir != nil {
			for _, sub := range p.dir.subs {
				if _, stays := slices.BinarySearch(p.listing.subs, sub.name()); !stays {
					sub.walk(func(*file[K, T]) { left-- })
				}
			}
		}
	}
	return left <= 0
}

// links returns where the links ..data of the listings lead, by directory.
func (st *stage[K, T]) links() map[string]string {
	links := make(map[string]string)
	for _, p := range st.plans {
		if p.listing.data != "" {
			links[p.listing.path] = p.listing.data
		}
	}
	return links
}

// verify returns errReplaced if the root is another directory than when it was opened, or a link ..data leads to another. Then what was read
// may be of two releases.
func (r *root) verify(links map[string]string) error {
	for dir, target := range links {
		if now, err := r.Readlink(path.Join(dir, "..data")); err != nil || now != target {
			return errReplaced
		}
	}
	return r.isCurrent()
}

// read reads the file of a step, if the time has come. Its error is the cause of ctx.
func (s *Source[K, T]) read(ctx context.Context, r *root, st *step[K, T]) error {
	if st.vanished || st.err != nil || !s.isDue(st) {
		return nil
	}
	switch {
	case st.stamp.size == 0: // a writer may have truncated it
		st.read, st.bad = true, &Error{st.path, errEmpty}
		return nil
	case st.stamp.size > s.cfg.MaxSize:
		st.read, st.bad = true, &Error{st.path, fmt.Errorf("the file has %d bytes, more than Config.MaxSize, %d", st.stamp.size, s.cfg.MaxSize)}
		return nil
	}
	var c content
	err := s.reads.do(ctx, st.path, func(func()) (err error) {
		c, err = r.read(st.path, s.cfg.MaxSize)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist): // deleted or replaced since it was listed; the next comparison shows which
		st.stamp, st.changed = stamp{}, true
	case err != nil:
		st.err = err
	case c.changed || c.stamp != st.stamp:
		st.changed = st.changed || st.stamp != c.stamp
		st.stamp = c.stamp
		if !s.isRestless(st) {
			break // the next comparison reads it, if it rests by then
		}
		fallthrough
	default:
		st.read = true
		st.docs, st.bad = s.decodeFile(st.path, c.data)
	}
	return nil
}

// isDue reports whether a file has rested for long enough to be read.
func (s *Source[K, T]) isDue(st *step[K, T]) bool {
	now := s.now()
	switch f := st.file; {
	case s.cfg.Settle < 0 || s.isRestless(st):
		return true
	case st.changed: // now
		return s.id == nil && !st.stamp.isYoung(time.Now())
	case f.unread:
		return now >= f.since+moment(s.cfg.Settle)
	case f.again:
		return now >= f.since+moment(f.stamp.resolution())
	default:
		return true // again, after an error
	}
}

// isRestless reports whether a file has changed for so long that it must be read anyway.
func (s *Source[K, T]) isRestless(st *step[K, T]) bool {
	return st.file != nil && st.file.unread && s.now() >= st.file.churn+20*moment(s.cfg.Settle)
}

// decodeFile returns the documents of a file, or why it has none.
func (s *Source[K, T]) decodeFile(path string, data []byte) (docs []doc[K, T], err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		objs, err := s.decode(path, data)
		if err != nil {
			return err
		}
		docs = make([]doc[K, T], len(objs))
		for i, obj := range objs {
			docs[i] = doc[K, T]{key: s.key(obj), obj: obj}
			if docs[i].key != docs[i].key { // no look-up could find a NaN
				return errors.New("a key is not equal to itself")
			}
		}
		return nil
	})
	if err != nil {
		return nil, &Error{path, err}
	}
	for i := range docs {
		docs[i].err = wait.Call(context.Background(), func(context.Context) error {
			if s.cfg.Valid == nil {
				return nil
			}
			return s.cfg.Valid(docs[i].obj)
		})
	}
	return docs, nil
}

// commit records what a comparison has read.
func (s *Source[K, T]) commit(st *stage[K, T]) {
	now := s.now()
	s.id = st.id
	dirs := s.dirsChanged
	var done []*step[K, T] // whose documents are known
	for _, p := range st.plans {
		done = append(done, s.apply(p, now)...)
	}
	slices.SortStableFunc(done, func(a, b *step[K, T]) int { return strings.Compare(a.path, b.path) })
	for _, step := range done {
		step.docs = s.firsts(step.file, step.docs)
		for _, key := range lost(step.file.docs, step.docs) {
			s.release(step.file, key)
		}
	}
	for _, step := range done {
		s.adopt(step.file, step.docs)
	}
	for _, e := range s.touched {
		s.settle(e)
	}
	clear(s.touched)
	s.touched = s.touched[:0]
	problems := sorted(s.problems)
	if st.all {
		s.remove(problems)
	}
	s.publish(problems, dirs != s.dirsChanged)
	s.plan(st.all, now)
}

// apply records the difference between a directory and its listing. It returns the steps whose documents were read.
func (s *Source[K, T]) apply(p *plan[K, T], now moment) (done []*step[K, T]) {
	d := p.dir
	if d == nil {
		d = s.newDir(p.listing.path)
	}
	if p.listing.err != nil {
		s.fail(d, &Error{d.path, cause(p.listing.err)})
		return nil
	}
	if d.err != nil {
		d.err = nil
		delete(s.problems, d.path)
	}
	d.subs = slices.DeleteFunc(d.subs, func(sub *directory[K, T]) bool {
		if err, failing := p.failing[sub.name()]; failing {
			s.fail(sub, &Error{sub.path, cause(err)})
			return false
		}
		if _, stays := slices.BinarySearch(p.listing.subs, sub.name()); stays {
			return false
		}
		s.drop(sub)
		s.restless = now
		return true
	})
	if len(p.steps) == 0 {
		return nil
	}
	added := false
	for _, step := range p.steps {
		f := step.file
		switch {
		case step.vanished:
			s.vanish(f)
			s.restless = now
			continue
		case f == nil:
			f = &file[K, T]{path: step.path}
			step.file = f
			d.files = append(d.files, f)
			added = true
			s.restless = now
		}
		if s.applyStep(step, now) {
			done = append(done, step)
		}
	}
	if slices.ContainsFunc(p.steps, func(s *step[K, T]) bool { return s.vanished }) {
		gone := make(map[*file[K, T]]bool)
		for _, step := range p.steps {
			gone[step.file] = step.vanished
		}
		d.files = slices.DeleteFunc(d.files, func(f *file[K, T]) bool { return gone[f] })
	}
	if added {
		slices.SortFunc(d.files, func(a, b *file[K, T]) int { return strings.Compare(a.path, b.path) })
	}
	return done
}

// applyStep records a step of a file that exists. It reports whether the documents were read.
func (s *Source[K, T]) applyStep(st *step[K, T], now moment) (read bool) {
	f := st.file
	if st.changed {
		s.restless = now
		f.stamp, f.since = st.stamp, now
		if !f.unread {
			f.unread, f.churn = true, now
		}
	}
	switch {
	case st.err != nil:
		s.setError(f, &Error{f.path, cause(st.err)})
		f.unread, f.again, f.retry = false, false, true
	case st.read:
		f.unread, f.retry = false, false
		f.again = now < f.since+moment(f.stamp.resolution()) && f.stamp.isYoung(time.Now())
		s.setError(f, st.bad)
		if st.bad == nil {
			s.watchFile(f)
			return true
		}
	}
	s.watchFile(f)
	return false
}

// setError records why a file cannot be read, or nil.
func (s *Source[K, T]) setError(f *file[K, T], err error) {
	if f.err == nil && err == nil {
		return
	}
	f.err = err
	if err == nil {
		delete(s.problems, f.path)
	} else {
		s.problems[f.path] = err.(*Error)
	}
	for i := range f.docs {
		s.touch(s.entries[f.docs[i].key])
	}
}

// watchFile records whether a file waits to be read.
func (s *Source[K, T]) watchFile(f *file[K, T]) {
	if f.unread || f.again {
		s.waiting[f] = struct{}{}
	} else {
		delete(s.waiting, f)
	}
}

// vanish records that a file does not exist anymore.
func (s *Source[K, T]) vanish(f *file[K, T]) {
	for i := range f.docs {
		s.release(f, f.docs[i].key)
	}
	delete(s.problems, f.path)
	delete(s.waiting, f)
	if _, twice := s.repeated[f]; twice {
		delete(s.repeated, f)
		s.clashed = true
	}
}

// drop records that a directory does not exist anymore.
func (s *Source[K, T]) drop(d *directory[K, T]) {
	d.walk(s.vanish)
	var forget func(d *directory[K, T])
	forget = func(d *directory[K, T]) {
		delete(s.problems, d.path)
		for _, sub := range d.subs {
			forget(sub)
		}
	}
	forget(d)
	s.dirsChanged++
}

// fail records that a directory cannot be read. All its files stay as they are, and are read again when it can be read.
func (s *Source[K, T]) fail(d *directory[K, T], err *Error) {
	d.err = err
	s.problems[d.path] = err
	d.walk(func(f *file[K, T]) {
		f.unread, f.again, f.retry, f.err = false, false, true, err
		delete(s.waiting, f)
		for i := range f.docs {
			s.touch(s.entries[f.docs[i].key])
		}
	})
}

// newDir adds a directory to the tree. Its parent is there already.
func (s *Source[K, T]) newDir(rel string) *directory[K, T] {
	d := &directory[K, T]{path: rel}
	parent := s.tree.find(path.Dir(rel))
	i, _ := slices.BinarySearchFunc(parent.subs, d.name(), func(d *directory[K, T], name string) int { return strings.Compare(d.name(), name) })
	parent.subs = slices.Insert(parent.subs, i, d)
	s.dirsChanged++
	return d
}

// firsts returns docs without those whose keys come twice, and records these keys.
func (s *Source[K, T]) firsts(f *file[K, T], docs []doc[K, T]) []doc[K, T] {
	if len(s.repeated[f]) > 0 {
		delete(s.repeated, f)
		s.clashed = true
	}
	if len(docs) < 2 {
		return docs
	}
	seen := make(map[K]struct{}, len(docs))
	return slices.DeleteFunc(docs, func(d doc[K, T]) bool {
		if _, twice := seen[d.key]; twice {
			s.repeated[f] = append(s.repeated[f], d.key)
			s.clashed = true
			return true
		}
		seen[d.key] = struct{}{}
		return false
	})
}

// lost returns the keys of before that after lacks.
func lost[K comparable, T any](before, after []doc[K, T]) (keys []K) {
	if len(before) == 0 || len(before) == 1 && len(after) == 1 && before[0].key == after[0].key {
		return nil
	}
	has := make(map[K]struct{}, len(after))
	for i := range after {
		has[after[i].key] = struct{}{}
	}
	for i := range before {
		if _, stays := has[before[i].key]; !stays {
			keys = append(keys, before[i].key)
		}
	}
	return keys
}

// plan decides when the next comparisons are due.
func (s *Source[K, T]) plan(all bool, now moment) {
	s.again, s.unsettled = scope{}, 0
	var at moment // of the next look at the files that wait
	sooner := func(m moment) {
		if at == 0 || m < at {
			at = m
		}
	}
	for f := range s.waiting {
		if f.unread {
			s.unsettled++
			sooner(min(f.since, f.churn+19*moment(max(s.cfg.Settle, 0))) + moment(max(s.cfg.Settle, 0)))
		} else {
			sooner(f.since + moment(f.stamp.resolution()))
		}
		s.again.add(path.Dir(f.path))
	}
	var whole moment
	for _, e := range s.lacking {
		if e.lacking != 0 && len(s.problems) == 0 {
			if end := s.endOfGrace(e); whole == 0 || end < whole {
				whole = end
			}
		}
	}
	if s.unsettled > 0 && whole != 0 {
		whole = max(whole, at)
	}
	if whole != 0 && (at == 0 || whole <= at) {
		at, s.again.all = whole, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.againAt = at
	if all {
		s.wholeAt = s.now() + moment(max(s.cfg.Interval, 0))
	}
}

// publish makes the events of a comparison, and what is missing, visible to watches.
func (s *Source[K, T]) publish(problems []error, dirsChanged bool) {
	turned := !slices.EqualFunc(s.missing, problems, func(a, b error) bool { return a.Error() == b.Error() })
	s.missing = problems
	var conflicts map[conflict]*Error
	if s.clashed {
		conflicts = s.conflictsNow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clashed {
		s.setConflictsLocked(conflicts)
		s.clashed = false
	}
	s.problemsNow = problems
	if dirsChanged || s.dirs == nil {
		s.dirs = nil
		s.tree.each(func(d *directory[K, T]) { s.dirs = append(s.dirs, d.path) })
		s.moved.Wake()
	}
	if keep := len(s.log) - s.cfg.History; keep > 0 {
		s.log = slices.Clone(s.log[keep:]) // readers have slices of the old one
		s.low += informer.Version(keep)
	}
	for i := range s.events {
		s.version++
		s.events[i].Version = s.version
	}
	s.log = append(s.log, s.events...)
	clear(s.events)
	s.events = s.events[:0]
	if turned { // only a list says what is missing
		s.version++
		s.log, s.low = nil, s.version
	}
}
