package files

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// entry is an object of the source.
//
//  1. file has doc, if any file has the key. Other files with the key are in Source.rivals.
//  2. good and err are what the last event, or the list, has said of the object.
//  3. An object without a file is among Source.lacking, until it is deleted.
type entry[K comparable, T any] struct {
	key     K
	file    *file[K, T] // whose document counts
	doc     *doc[K, T]  // of file; of the last file if there is none
	good    *doc[K, T]  // the last good state; nil if there was none
	err     error       // why the current state is not good
	lacking moment      // since when no file has the key; 0 if one has
	touched bool        // is in Source.touched
	listed  bool        // is in Source.lacking
	deleted bool
}

// claim says that a document of a file has a key that belongs to another file.
type claim[K comparable, T any] struct {
	file *file[K, T]
	doc  *doc[K, T]
}

// conflict is a document that does not count, because another one has its key.
type conflict struct {
	path, key string
}

func (s *Source[K, T]) touch(e *entry[K, T]) {
	if !e.touched {
		e.touched = true
		s.touched = append(s.touched, e)
	}
}

// claim records that a document of f has a key. Claims of one comparison come in the order of the paths, after all releases.
func (s *Source[K, T]) claim(f *file[K, T], d *doc[K, T]) {
	e, ok := s.entries[d.key]
	if !ok {
		e = &entry[K, T]{key: d.key}
		s.entries[d.key] = e
		s.order = append(s.order, e)
	}
	s.touch(e)
	rivals := s.rivals[d.key]
	if e.file == f || e.file == nil && len(rivals) == 0 {
		e.file, e.doc = f, d
		return
	}
	s.clashed = true
	this := claim[K, T]{f, d}
	if i := slices.IndexFunc(rivals, func(c claim[K, T]) bool { return c.file == f }); i >= 0 {
		rivals[i] = this
	} else {
		s.rivals[d.key] = append(rivals, this)
	}
}

// release records that f no longer has a key.
func (s *Source[K, T]) release(f *file[K, T], key K) {
	e := s.entries[key]
	s.touch(e)
	if e.file == f {
		e.file = nil
		return
	}
	s.dropRival(key, f)
}

func (s *Source[K, T]) dropRival(key K, f *file[K, T]) {
	s.clashed = true
	rest := slices.DeleteFunc(s.rivals[key], func(c claim[K, T]) bool { return c.file == f })
	if len(rest) == 0 {
		delete(s.rivals, key)
	} else {
		s.rivals[key] = rest
	}
}

// adopt makes docs the documents of f, after the keys that it no longer has were released.
func (s *Source[K, T]) adopt(f *file[K, T], docs []doc[K, T]) {
	f.docs = docs
	for i := range docs {
		s.claim(f, &docs[i])
	}
}

// settle decides what counts for an object, and adds the event to s.events if that has changed.
func (s *Source[K, T]) settle(e *entry[K, T]) {
	e.touched = false
	if rivals := s.rivals[e.key]; e.file == nil && len(rivals) > 0 {
		first := slices.MinFunc(rivals, func(a, b claim[K, T]) int { return cmp.Compare(a.file.path, b.file.path) })
		e.file, e.doc = first.file, first.doc
		s.dropRival(e.key, first.file)
	}
	if e.file == nil {
		if e.lacking == 0 {
			e.lacking = s.now()
		}
		if !e.listed {
			e.listed = true
			s.lacking = append(s.lacking, e)
		}
		return
	}
	e.lacking = 0
	err := e.file.err
	if err == nil && e.doc.err != nil {
		err = &Error{Path: e.file.path, Err: fmt.Errorf("%v: %w", e.key, e.doc.err)}
	}
	switch {
	case err != nil:
		s.spoil(e, err)
		return
	case e.good == nil:
		s.report(informer.Event[T]{Type: informer.Added, Object: e.doc.obj})
	case e.err != nil || e.good != e.doc && !s.equal(e.good.obj, e.doc.obj):
		s.report(informer.Event[T]{Type: informer.Modified, Object: e.doc.obj})
	}
	e.good, e.err = e.doc, nil
}

// spoil records that the current state of an object cannot be read.
func (s *Source[K, T]) spoil(e *entry[K, T], err error) {
	if e.err == nil || e.err.Error() != err.Error() {
		s.report(informer.Event[T]{Type: informer.Unreadable, Object: e.doc.obj, Err: err})
	}
	e.err = err
}

func (s *Source[K, T]) report(ev informer.Event[T]) { s.events = append(s.events, ev) }

// equal reports whether two states are the same. If Config.Equal panics, they are not.
func (s *Source[K, T]) equal(a, b T) (same bool) {
	err := wait.Call(context.Background(), func(context.Context) error {
		same = s.cfg.Equal(a, b)
		return nil
	})
	return same && err == nil
}

// remove deletes the objects for which the grace is over. Only a comparison of the whole tree may call it, because a key that is missing in
// one directory may be in another. While a file cannot be read, or was not read yet because it does not rest, nothing is deleted, because the
// key may be in that file.
func (s *Source[K, T]) remove(problems []error) {
	now := s.now()
	unread := false
	for f := range s.waiting {
		unread = unread || f.unread
	}
	s.lacking = slices.DeleteFunc(s.lacking, func(e *entry[K, T]) bool {
		switch {
		case e.lacking == 0:
			e.listed = false
			return true
		case now < s.endOfGrace(e):
			return false
		case unread && now < e.lacking+30*moment(max(s.cfg.Grace, s.cfg.Settle, 0)): // a file that never rests was read by then
			return false
		case len(problems) > 0:
			s.spoil(e, fmt.Errorf("no file has it now, but it may be in one that cannot be read: %w", problems[0]))
			return false
		}
		ev := informer.Event[T]{Type: informer.Deleted, Object: e.doc.obj, KeyOnly: e.good == nil}
		if e.good != nil {
			ev.Object = e.good.obj
		}
		s.report(ev)
		delete(s.entries, e.key)
		e.deleted = true
		s.deleted++
		return true
	})
	if s.deleted > len(s.order)/2 {
		s.order = slices.DeleteFunc(s.order, func(e *entry[K, T]) bool { return e.deleted })
		s.deleted = 0
	}
}

// endOfGrace returns when an object without a file is deleted, if nothing changes until then.
func (s *Source[K, T]) endOfGrace(e *entry[K, T]) moment {
	grace := moment(max(s.cfg.Grace, 0))
	return min(max(e.lacking, s.restless)+grace, e.lacking+30*grace)
}

// conflictsNow returns the conflicts that exist, with their errors.
func (s *Source[K, T]) conflictsNow() map[conflict]*Error {
	now := make(map[conflict]*Error)
	for f, keys := range s.repeated {
		for _, key := range keys {
			err := fmt.Errorf("the file has %v twice; the first one counts", key)
			now[conflict{f.path, fmt.Sprint(key)}] = &Error{f.path, err}
		}
	}
	for key, rivals := range s.rivals {
		for _, c := range rivals {
			err := fmt.Errorf("%v is also in %s, which counts", key, quoted(s.entries[key].file.path))
			now[conflict{c.file.path, fmt.Sprint(key)}] = &Error{c.file.path, err}
		}
	}
	return now
}

// sorted returns problems in the order of their texts.
func sorted[C comparable](problems map[C]*Error) []error {
	all := slices.SortedFunc(maps.Values(problems), func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Error(), b.Error()))
	})
	errs := make([]error, len(all))
	for i, err := range all {
		errs[i] = err
	}
	return errs
}
