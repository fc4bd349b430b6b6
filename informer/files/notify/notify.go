package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// retryPeriod is the time after which watches that could not be added are tried again, and all are compared with the directories.
const retryPeriod = 30 * time.Second

// Source is a [files.Source].
//
// [files.Source]: https://pkg.go.dev/github.com/setpoint-go/setpoint/informer/files#Source
type Source interface {
	Root() string
	Dirs() (dirs []string, changed <-chan struct{})
	Nudge(dirs ...string)
}

// Config is the configuration of [Run]. Its zero value can be used.
type Config struct {
	// OnError is called when a directory cannot be watched, or when events were lost. An error is reported again only after it has changed. One
	// goroutine calls OnError. Defaults to a line in the log at level Warn.
	OnError func(error)

	// Logger receives the errors if OnError is nil. Defaults to slog.Default().
	Logger *slog.Logger
}

// Run calls src.Nudge for directories in which the operating system reports changes, until ctx ends. Then it returns nil, after its goroutines
// have ended. Errors are reported to Config.OnError, and the source continues.
func Run(ctx context.Context, src Source, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.OnError == nil {
		cfg.OnError = func(err error) {
			cfg.Logger.WarnContext(ctx, "files are compared at the interval", "root", src.Root(), "error", err)
		}
	}
	f := &follower{src: src, report: cfg.OnError}
	for ctx.Err() == nil {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			f.follow(ctx, w)
			err = w.Close()
		}
		f.failed("watch", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
			src.Nudge()
		}
	}
	return nil
}

// follower watches the directories of a source. One goroutine uses it.
type follower struct {
	src    Source
	report func(error)
	last   string // the last error that was reported
	w      *fsnotify.Watcher

	watched map[string]*watch // by path without links
}

// watch is a directory that is watched.
type watch struct {
	info  fs.FileInfo     // of the directory when its watch was added
	dirs  []string        // of the source; several if links lead to it
	names map[string]bool // entries that are links to a directory of the source, or are on the way to the root
}

// follow passes the events of w to the source, until ctx ends or w does.
func (f *follower) follow(ctx context.Context, w *fsnotify.Watcher) {
	f.w, f.watched = w, make(map[string]*watch)
	changed := f.refresh()
	tick := time.NewTicker(retryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-w.Events:
			if !ok {
				return
			}
			if f.handle(ev) {
				changed = f.refresh()
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			f.lost(err)
		case <-changed:
			changed = f.refresh()
		case <-tick.C:
			changed = f.refresh()
		}
	}
}

// lost handles an error of the system: events may be missing.
func (f *follower) lost(err error) {
	f.failed("read events", err)
	f.src.Nudge()
}

// handle nudges the source for an event. It reports whether the event may have replaced a directory.
func (f *follower) handle(ev fsnotify.Event) (replaced bool) {
	parent, itself := f.watched[filepath.Dir(ev.Name)], f.watched[ev.Name]
	if itself != nil || parent != nil && parent.names[filepath.Base(ev.Name)] || parent == nil {
		f.src.Nudge() // a directory was created, moved, or removed, or the event has a name that is not true anymore
		return true
	}
	if len(parent.dirs) > 0 {
		f.src.Nudge(parent.dirs...)
	}
	return false
}

// refresh makes the watches those of the directories that the source has, and nudges it for the new ones. changed is closed when the source
// has other directories.
func (f *follower) refresh() (changed <-chan struct{}) {
	dirs, changed := f.src.Dirs()
	wanted := f.wanted(dirs)
	for path, old := range f.watched { // first: the system has one watch for a directory, whatever its name
		is := wanted[path]
		if is == nil || !os.SameFile(is.info, old.info) {
			_ = f.w.Remove(path) // it may have ended with the directory
			delete(f.watched, path)
		}
	}
	var added []string
	var failed error
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		if f.watched[path] == nil {
			if err := f.w.Add(path); errors.Is(err, fs.ErrNotExist) {
				continue // the next comparison of its parent shows that
			} else if err != nil {
				failed = fmt.Errorf("%s: %w", path, err)
				break
			}
			added = append(added, wanted[path].dirs...)
		}
		f.watched[path] = wanted[path]
	}
	f.failed("watch", failed)
	switch {
	case len(added) > 10:
		f.src.Nudge()
	case len(added) > 0:
		f.src.Nudge(added...)
	}
	return changed
}

// failed reports an error, unless it was the last one.
func (f *follower) failed(verb string, err error) {
	text := ""
	if err != nil {
		err = fmt.Errorf("notify: %s: %w", verb, err)
		text = err.Error()
		if text != f.last {
			f.report(err)
		}
	}
	f.last = text
}

// wanted returns the directories to watch.
func (f *follower) wanted(dirs []string) map[string]*watch {
	wanted := make(map[string]*watch)
	get := func(path string) *watch {
		if wanted[path] == nil {
			info, err := os.Stat(path)
			if err != nil {
				return nil
			}
			wanted[path] = &watch{info: info, names: make(map[string]bool)}
		}
		return wanted[path]
	}
	name := func(path string) {
		if w := get(filepath.Dir(path)); w != nil {
			w.names[filepath.Base(path)] = true
		}
	}
	root, err := filepath.Abs(f.src.Root())
	if err != nil {
		return wanted
	}
	for _, step := range way(root) {
		name(step)
	}
	for _, dir := range dirs {
		path := filepath.Join(root, filepath.FromSlash(dir))
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if w := get(real); w != nil {
			w.dirs = append(w.dirs, dir)
		}
		if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); dir != "." && err == nil && filepath.Join(parent, filepath.Base(path)) != real {
			for _, step := range way(filepath.Join(parent, filepath.Base(path))) {
				name(step)
			}
		}
	}
	return wanted
}

// way returns the links on the way to a path, and then the path itself without links. All but the last part of each exist, and are no links.
func way(path string) (steps []string) {
	volume := filepath.VolumeName(path)
	at := volume + string(filepath.Separator)
	rest := strings.Split(strings.TrimPrefix(path[len(volume):], string(filepath.Separator)), string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil || links == 40 { // no link, or too many
			at = next
			continue
		}
		links++
		steps = append(steps, next)
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		rest = append(strings.Split(strings.TrimPrefix(target[len(filepath.VolumeName(target)):], string(filepath.Separator)), string(filepath.Separator)), rest...)
		at = filepath.VolumeName(target) + string(filepath.Separator)
	}
	return append(steps, at)
}
