package files_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// record is a handler that writes down its calls.
func record(calls *looptest.Log[string]) informer.Handler[string, site] {
	return informer.Handler[string, site]{
		OnAdd:    func(s site, _ bool) { calls.Add("add " + text(s)) },
		OnUpdate: func(old, s site) { calls.Add("update " + text(old) + " to " + text(s)) },
		OnDelete: func(d cache.Tombstone[string, site]) { calls.Add("delete " + text(d.Object)) },
	}
}

// replaceFile writes a file as careful programs do: a new file is renamed over it.
func replaceFile(path string, content []byte) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// subject is a source of files for the suite. Each change is committed when the source has seen it.
func subject(t *testing.T, cfg files.Config[site], write func(path string, content []byte) error) informertest.Subject[site] {
	dir := looptest.MemoryDir(t)
	cfg.Valid, cfg.Empty = valid, true
	src := open(t, dir, cfg)
	path := func(name string) string { return filepath.Join(dir, name+".json") }
	look := func() error {
		_, err := src.LatestVersion(context.Background())
		return err
	}
	put := func(name string, rev int) error {
		if err := write(path(name), encode(site{name, rev})); err != nil {
			return err
		}
		return look()
	}
	return informertest.Subject[site]{
		Source: src,
		Put:    put,
		Delete: func(name string) error {
			if err := os.Remove(path(name)); err != nil {
				return err
			}
			if err := look(); err != nil {
				return err
			}
			time.Sleep(max(cfg.Grace, 0))
			return look()
		},
		Spoil:    func(name string) error { return put(name, -1) },
		Read:     func(s site) (string, int) { return s.Name, s.Rev },
		History:  1000,
		Objects:  10,
		Expire:   func() error { files.Expire(src); return nil },
		Bookmark: func() error { src.Nudge(); return nil },
	}
}

func TestSourceKeepsTheContract(t *testing.T) {
	writeFile := func(path string, content []byte) error { return os.WriteFile(path, content, 0o644) }
	for _, c := range []struct {
		name  string
		cfg   files.Config[site]
		write func(path string, content []byte) error
	}{
		{"with a grace", files.Config[site]{Grace: 300 * time.Millisecond}, writeFile},
		{"read at once", files.Config[site]{Grace: -1, Settle: -1, Interval: -1}, replaceFile},
	} {
		for _, suite := range informertest.Cases[site]() {
			t.Run(c.name+"/"+suite.Name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { suite.Run(t, subject(t, c.cfg, c.write)) })
			})
		}
	}
}

func text(s site) string {
	return cmp.Or(s.Name, "?") + "." + string(rune('0'+s.Rev%10))
}
