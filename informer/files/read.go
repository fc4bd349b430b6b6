package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// reads limits the time of system calls. Several goroutines may call its methods concurrently.
type reads struct {
	timeout time.Duration

	mu   sync.Mutex
	late map[string]late // by path
}

// late is a call whose caller has stopped waiting.
type late struct {
	ended <-chan error
	slow  bool // it has taken too long; otherwise its context has ended
}

// do calls f, and returns its error. If f makes no progress for the timeout, or ctx ends, do returns without it. f reports its progress by
// tick. While an abandoned call for a path goes on, do fails for the same path: so a hanging file system costs one goroutine for each path.
func (r *reads) do(ctx context.Context, path string, f func(tick func()) error) error {
	if err := r.may(ctx, path); err != nil {
		return err
	}
	ended := make(chan error, 1)
	var ticks atomic.Int64
	// Reads. It ends with the system call, which cannot be interrupted.
	go func() {
		ended <- wait.Call(context.Background(), func(context.Context) error { return f(func() { ticks.Add(1) }) })
	}()
	limit := time.NewTimer(r.timeout)
	defer limit.Stop()
	for seen := int64(0); ; {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			r.abandon(path, late{ended, false})
			return context.Cause(ctx)
		case <-limit.C:
			if n := ticks.Load(); n != seen {
				seen = n
				limit.Reset(r.timeout)
				continue
			}
			r.abandon(path, late{ended, true})
			return errSlow
		}
	}
}

// may returns nil if no call for a path goes on. It waits for one that was not slow yet.
func (r *reads) may(ctx context.Context, path string) error {
	r.mu.Lock()
	before, goesOn := r.late[path]
	r.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !goesOn {
		return nil
	}
	patience := r.timeout
	if before.slow {
		patience = 0
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-before.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		select {
		case <-before.ended:
		default:
			r.abandon(path, late{before.ended, true})
			return errSlow
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.late, path)
	return nil
}

func (r *reads) abandon(path string, call late) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late == nil {
		r.late = make(map[string]late)
	}
	r.late[path] = call
}

// root is the root directory during one comparison: the directory that its path led to when the comparison began.
type root struct {
	*os.Root
	path string // as the user has given it
	id   fs.FileInfo
}

// openRoot opens the root. The caller must close it.
func openRoot(path string) (*root, error) {
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	id, err := r.Stat(".")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &root{r, path, id}, nil
}

// isCurrent returns an error if the path of the root leads to another directory by now, or fails to lead to one.
func (r *root) isCurrent() error {
	now, err := os.Stat(r.path)
	if err == nil && !os.SameFile(r.id, now) {
		err = errReplaced
	}
	return err
}

// open opens a file or a directory. A link may lead out of the root.
func (r *root) open(rel string) (*os.File, error) {
	f, err := r.Open(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(filepath.Join(r.path, filepath.FromSlash(rel)))
	}
	return f, err
}

// stat follows links, also those that lead out of the root.
func (r *root) stat(rel string) (fs.FileInfo, error) {
	info, err := r.Stat(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Join(r.path, filepath.FromSlash(rel)))
	}
	return info, err
}

// listing is what a directory holds.
type listing struct {
	path  string // relative to the root; "." is the root
	err   error  // why the directory cannot be read; the rest is empty then
	files []found
	subs  []string // the names of its directories, in order
	data  string   // where the link ..data leads: Kubernetes swaps it to replace all files of a volume at once
}

// found is a file of a directory.
type found struct {
	name  string
	link  bool // it is a link
	match bool
	stamp stamp
	err   error // instead of stamp
}

// list reads a directory.
func (r *root) list(dir string, match func(string) bool, tick func()) *listing {
	l := &listing{path: dir}
	f, err := r.open(dir)
	if err != nil {
		l.err = err
		return l
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		l.err = err
		return l
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	l.files = make([]found, 0, len(entries))
	for _, entry := range entries {
		tick()
		name := entry.Name()
		if name == "..data" {
			l.data, _ = r.Readlink(path.Join(dir, name)) // without a link, nothing is swapped
		}
		if strings.HasPrefix(name, ".") {
			continue
		}
		if entry.IsDir() {
			l.subs = append(l.subs, name)
			continue
		}
		rel := path.Join(dir, name)
		this := found{name: name, link: entry.Type()&fs.ModeSymlink != 0, match: match(rel)}
		var info fs.FileInfo
		switch {
		case this.link: // it may be one to a directory
			info, this.err = r.stat(rel)
		case this.match:
			info, this.err = entry.Info()
		}
		switch {
		case this.err == nil && info == nil: // it does not match
			continue
		case this.link && this.err == nil && info.IsDir():
			if !r.contains(info, dir) {
				l.subs = append(l.subs, name)
			}
			continue
		case !this.link && errors.Is(this.err, fs.ErrNotExist):
			continue // deleted in the meantime
		case this.err == nil && !info.Mode().IsRegular():
			this.err = errSpecial
		case this.err == nil:
			this.stamp = stampOf(info)
		}
		if this.match || this.err != nil {
			l.files = append(l.files, this)
		}
	}
	return l
}

// contains reports whether info, of the target of a link in dir, is dir or one of its parents. Such a link leads to nothing new.
func (r *root) contains(info fs.FileInfo, dir string) bool {
	for ; ; dir = path.Dir(dir) {
		if parent, err := r.stat(dir); err == nil && os.SameFile(parent, info) {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

// content is the result of one read of a file.
type content struct {
	data    []byte
	stamp   stamp // of the file that was read
	changed bool  // the file was changed during the read: data is not used
}

// read reads at most limit+1 bytes of a file.
func (r *root) read(rel string, limit int64) (c content, err error) {
	f, err := r.open(rel)
	if err != nil {
		return c, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return c, err
	}
	if !before.Mode().IsRegular() {
		return c, errSpecial
	}
	c.data = make([]byte, 0, min(before.Size(), limit)+1)
	for int64(len(c.data)) <= limit {
		n, err := f.Read(c.data[len(c.data):cap(c.data)])
		c.data = c.data[:len(c.data)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c, err
		}
		if len(c.data) == cap(c.data) {
			c.data = slices.Grow(c.data, 512)
		}
	}
	after, err := f.Stat()
	if err != nil {
		return c, err
	}
	c.stamp = stampOf(after)
	c.changed = stampOf(before) != c.stamp
	return c, nil
}
