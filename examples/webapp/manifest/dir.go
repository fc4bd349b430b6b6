package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Dir is a directory of manifests: its files *.json, except those whose name begins with a dot. All methods may be
// called concurrently.
type Dir struct {
	path string
	cfg  Config

	mu       sync.Mutex                 // guards the following
	asked    uint64                     // lists that have begun
	merged   uint64                     // the last of them that was merged; earlier ones are ignored
	effects  map[string]Manifest        // by file: the manifest in effect; no two share a name or a port
	problems map[string]*Error          // by file: the current problem, which has been reported
	late     map[string]<-chan struct{} // by path: closed when a read that took too long has ended
}

// reading is the result of one read of a file: a manifest or a problem.
type reading struct {
	manifest Manifest
	problem  *Error
}

// Open returns the Dir over a directory, which must exist.
func Open(path string, cfg Config) (*Dir, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("manifest: open %s: %w", path, err)
	}
	d := &Dir{
		path:     path,
		cfg:      cfg,
		effects:  make(map[string]Manifest),
		problems: make(map[string]*Error),
		late:     make(map[string]<-chan struct{}),
	}
	info, err := inTime(context.Background(), d, path, os.Stat)
	if err != nil {
		return nil, fmt.Errorf("manifest: open directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("manifest: open directory: %w", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a directory")})
	}
	return d, nil
}

// List reads the directory and returns the manifests in effect, by name. It fails if the directory cannot be read. A
// problem of one file does not make it fail: the last good content of the file stays in effect.
func (d *Dir) List(ctx context.Context) ([]Manifest, error) {
	d.mu.Lock()
	d.asked++
	turn := d.asked
	d.mu.Unlock()

	files, err := d.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("manifest: list: %w", err)
	}
	list, reports, recovered := d.merge(turn, files)
	for _, problem := range reports {
		d.cfg.Report(problem)
	}
	for _, file := range recovered {
		d.cfg.Recovered(file)
	}
	return list, nil
}

// Problems returns the problems of the files at the last List, by file.
func (d *Dir) Problems() []*Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	problems := make([]*Error, 0, len(d.problems))
	for _, file := range slices.Sorted(maps.Keys(d.problems)) {
		problems = append(problems, d.problems[file])
	}
	return problems
}

// merge makes the result of a read the state of d, unless a list that began later has already done so. It returns the
// manifests now in effect, the new problems, and the files whose problems have gone.
func (d *Dir) merge(turn uint64, files map[string]reading) (list []Manifest, reports []*Error, recovered []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if turn > d.merged {
		d.merged = turn
		effects, problems := resolve(d.effects, files)
		for _, file := range slices.Sorted(maps.Keys(files)) {
			was, is := d.problems[file], problems[file]
			switch {
			case is != nil && (was == nil || was.Error() != is.Error()):
				reports = append(reports, is)
			case is == nil && was != nil:
				recovered = append(recovered, file)
			}
		}
		d.effects, d.problems = effects, problems
	}
	list = slices.SortedFunc(maps.Values(d.effects), func(a, b Manifest) int { return strings.Compare(a.Name, b.Name) })
	return list, reports, recovered
}

// read reads every file of the directory.
func (d *Dir) read(ctx context.Context) (map[string]reading, error) {
	entries, err := inTime(ctx, d, d.path, os.ReadDir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, cause(err))
	}
	files := make(map[string]reading)
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") {
			continue
		}
		data, err := inTime(ctx, d, filepath.Join(d.path, name), readFile)
		if errors.Is(err, fs.ErrNotExist) && entry.Type()&fs.ModeSymlink == 0 {
			continue // deleted since; a link to nothing is a problem
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, errSlow) && d.first() {
			return nil, fmt.Errorf("%s: %w", quoted(name), err) // an app that is there already would seem to be deleted
		}
		var r reading
		if err == nil {
			r.manifest, err = Parse(name, data)
		}
		if err != nil && !errors.As(err, &r.problem) {
			r.problem = &Error{File: name, Err: cause(err)}
		}
		files[name] = r
	}
	return files, nil
}

// first reports whether no List has read the directory yet.
func (d *Dir) first() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.merged == 0
}

// cause returns why an operation on a file failed, without the path, which the caller names.
func cause(err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		return e.Err
	}
	return err
}
