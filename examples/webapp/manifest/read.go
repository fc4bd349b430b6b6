package manifest

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// errSlow means that a read has not ended within Config.ReadTimeout.
var errSlow = errors.New("it cannot be read in time")

// inTime reads a path, and gives up when ctx ends or Config.ReadTimeout is over. While an abandoned read continues, no
// other read of that path begins: a hanging file system costs one goroutine for each file.
func inTime[T any](ctx context.Context, d *Dir, path string, read func(path string) (T, error)) (T, error) {
	var none, got T
	if !d.mayRead(path) {
		return none, errSlow
	}
	var err error
	ended := make(chan struct{}) // closed by the reader, which writes got and err before
	// Reads. It ends with the system call, which cannot be interrupted.
	go func() {
		defer close(ended)
		got, err = read(path)
	}()
	limit := time.NewTimer(d.cfg.ReadTimeout)
	defer limit.Stop()
	cause := errSlow
	select {
	case <-ended:
		return got, err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-limit.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late[path] = ended
	return none, cause
}

// mayRead reports whether the last read of a path has ended.
func (d *Dir) mayRead(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended, late := d.late[path]
	if !late {
		return true
	}
	select {
	case <-ended:
		delete(d.late, path)
		return true
	default:
		return false
	}
}

// readFile returns the content of a file, or enough of it to show that it is too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // first: to open a named pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}
