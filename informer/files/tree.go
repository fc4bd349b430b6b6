package files

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"
)

// moment is a time since the Source was made. 0 is none.
type moment time.Duration

// file is a file of the tree.
type file[K comparable, T any] struct {
	path  string // relative to the root
	stamp stamp  // as last seen
	since moment // when this stamp was seen first
	churn moment // when the first stamp was seen that was not read
	docs  []doc[K, T]
	err   error // why the file cannot be read, or its content is bad; docs are the last good ones

	unread bool // this stamp was not read yet
	again  bool // it was read when it was so young that it may have changed without another stamp
	retry  bool // the file could not be read; the next comparison tries again
}

// doc is an object of a file.
type doc[K comparable, T any] struct {
	key K
	obj T
	err error // of Config.Valid
}

// directory is a directory of the tree.
type directory[K comparable, T any] struct {
	path  string
	files []*file[K, T]      // in the order of their names
	subs  []*directory[K, T] // in the order of their names
	err   error              // why it cannot be read; then files and subs are as before
}

func (d *directory[K, T]) name() string { return path.Base(d.path) }

// base returns the name of a file of d.
func (d *directory[K, T]) base(f *file[K, T]) string {
	if d.path == "." {
		return f.path
	}
	return f.path[len(d.path)+1:]
}

// walk calls f for all files below d.
func (d *directory[K, T]) walk(f func(*file[K, T])) {
	for _, this := range d.files {
		f(this)
	}
	for _, sub := range d.subs {
		sub.walk(f)
	}
}

// sub returns the directory with that name.
func (d *directory[K, T]) sub(name string) (*directory[K, T], bool) {
	i, ok := slices.BinarySearchFunc(d.subs, name, func(d *directory[K, T], name string) int { return cmp.Compare(d.name(), name) })
	if !ok {
		return nil, false
	}
	return d.subs[i], true
}

// find returns the directory with a path relative to d, or its nearest parent that exists.
func (d *directory[K, T]) find(rel string) *directory[K, T] {
	for name := range strings.SplitSeq(path.Clean(rel), "/") {
		sub, ok := d.sub(name)
		if !ok {
			break
		}
		d = sub
	}
	return d
}

// step is what a comparison has found out about a file that is not as it was.
type step[K comparable, T any] struct {
	file  *file[K, T] // nil for a new file
	path  string
	stamp stamp
	err   error // why the file cannot be read

	vanished bool
	changed  bool // the stamp has
	read     bool // docs or bad has the content
	docs     []doc[K, T]
	bad      error // of the content
}

// plan is the difference between a directory and the listing of it.
type plan[K comparable, T any] struct {
	dir     *directory[K, T] // nil for a new directory
	listing *listing
	steps   []*step[K, T]
	failing map[string]error // by name: directories that are links and cannot be followed
}

// compare returns the steps from what was known of a directory to its listing. d is nil if the directory is new.
func compare[K comparable, T any](d *directory[K, T], l *listing) *plan[K, T] {
	p := &plan[K, T]{dir: d, listing: l}
	if l.err != nil {
		return p
	}
	var had []*file[K, T]
	if d != nil {
		had = d.files
	}
	vanished := func(f *file[K, T]) { p.steps = append(p.steps, &step[K, T]{file: f, path: f.path, vanished: true}) }
	for _, found := range l.files {
		if found.err != nil && d != nil {
			if _, was := d.sub(found.name); was {
				if p.failing == nil {
					p.failing = make(map[string]error)
				}
				p.failing[found.name] = found.err
				continue
			}
		}
		if !found.match {
			continue
		}
		for len(had) > 0 && d.base(had[0]) < found.name {
			vanished(had[0])
			had = had[1:]
		}
		s := step[K, T]{stamp: found.stamp, err: found.err}
		if len(had) > 0 && d.base(had[0]) == found.name {
			s.file, s.path, had = had[0], had[0].path, had[1:]
			s.changed = s.err == nil && s.file.stamp != s.stamp
			if s.err == nil && !s.changed && !s.file.unread && !s.file.again && !s.file.retry {
				continue // nearly always
			}
		} else {
			s.path, s.changed = path.Join(l.path, found.name), found.err == nil
		}
		p.steps = append(p.steps, &s)
	}
	for _, f := range had {
		vanished(f)
	}
	return p
}

// each calls f for d and all directories below it.
func (d *directory[K, T]) each(f func(*directory[K, T])) {
	f(d)
	for _, sub := range d.subs {
		sub.each(f)
	}
}
