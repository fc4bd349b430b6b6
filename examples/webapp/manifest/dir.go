package manifest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/setpoint-go/setpoint/informer/files"
)

// Name returns the key of a manifest.
func Name(m Manifest) string { return m.Name }

// Open returns a source of the manifests in a directory, which must exist: its files *.json, compared at an interval. It is for informer.New.
func Open(dir string, interval time.Duration) (*files.Source[string, Manifest], error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: open directory: %w", err)
	}
	decode := func(file string, data []byte) ([]Manifest, error) {
		m, err := Parse(file, data)
		return []Manifest{m}, err
	}
	return files.New(dir, decode, Name, files.Config[Manifest]{
		Match:       func(path string) bool { return strings.HasSuffix(path, ".json") && !strings.Contains(path, "/") },
		Equal:       func(a, b Manifest) bool { return a == b },
		Interval:    interval,
		Grace:       2 * interval,
		ReadTimeout: time.Second,
		MaxSize:     MaxSize,
		Empty:       true,
	})
}
