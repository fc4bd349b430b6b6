//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// newest returns the path of the record file of a key.
func (f files) newest(t testing.TB, key string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(f.dir, key+".d", "*.lease"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("all is empty")
	}
	return all[len(all)-1]
}

// damages returns what can happen to a record file.
func damages(whole []byte) map[string][]byte {
	damaged := map[string][]byte{
		"an extra byte": append(bytes.Clone(whole), 'x'), "null": []byte("null"), "empty object": []byte("{}"),
		"another format":   bytes.Replace(whole, []byte(`"format":1`), []byte(`"format":2`), 1),
		"an unknown field": bytes.Replace(whole, []byte(`"term":7`), []byte(`"term":"7"`), 1),
	}
	for n := 0; n < len(whole); n += 7 {
		damaged[fmt.Sprintf("cut at %d", n)] = whole[:n]
	}
	last := bytes.Clone(whole)
	last[len(last)-1] ^= 1
	damaged["a bit flipped"] = last
	return damaged
}

func TestDamagedRecordCanBeReplacedAndKeepsItsTerm(t *testing.T) {
	ctx := context.Background()
	pristine := openFiles(t, fastDir(t))
	have, err := pristine.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a value\nof two lines"), Term: 6})
	if err != nil {
		t.Fatal(err)
	}
	have.Term = 7
	_, err = pristine.Update(ctx, have)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(pristine.newest(t, "lease"))
	if err != nil {
		t.Fatal(err)
	}

	for what, data := range damages(whole) {
		s := openFiles(t, fastDir(t))
		if err := os.CopyFS(s.dir, os.DirFS(pristine.dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.newest(t, "lease"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(ctx, "lease")
		if err != nil {
			t.Fatalf("%v: %v", what, err)
		}
		if len(got.Value) != 0 {
			t.Fatalf("%v: got.Value = %v, want none", what, got.Value)
		}
		if got.Version == "" {
			t.Fatalf("%v: got.Version is empty", what)
		}
		if got.Term != uint64(7) {
			t.Fatalf("%v: got.Term = %v, want %v", what, got.Term, uint64(7))
		}
		list, err := s.List(ctx, "lea")
		if err != nil {
			t.Fatalf("%v: %v", what, err)
		}
		if diff := cmp.Diff([]leaderelect.Entry{got}, list); diff != "" {
			t.Fatalf("%v: list mismatch (-want +got):\n%s", what, diff)
		}
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
		if !errors.Is(err, leaderelect.ErrConflict) {
			t.Fatalf("%v: err = %v, want %v", what, err, leaderelect.ErrConflict)
		}
		_, err = s.Update(ctx, have)
		if !errors.Is(err, leaderelect.ErrConflict) {
			t.Fatalf("%v: err = %v, want %v", what, err, leaderelect.ErrConflict)
		}

		got.Value = []byte("repaired")
		_, err = s.Update(ctx, got)
		if err != nil {
			t.Fatalf("%v: %v", what, err)
		}
		repaired, err := s.Get(ctx, "lease")
		if err != nil {
			t.Fatalf("%v: %v", what, err)
		}
		if got := string(repaired.Value); got != "repaired" {
			t.Fatalf("%v: string(repaired.Value) = %q, want %q", what, got, "repaired")
		}
	}
}

func TestDamagedRecordBlocksNoOtherKey(t *testing.T) {
	ctx := context.Background()
	s := openFiles(t, fastDir(t))
	long := strings.Repeat("k", 300)
	for _, key := range []string{"broken", long, "slots/slot/0", "slots/seat/0"} {
		_, err := s.Create(ctx, leaderelect.Entry{Key: key, Term: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.newest(t, "broken"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.newest(t, "kkk*"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "x.lease"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "x.d"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "empty.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(s.dir, "copy.d"), os.DirFS(filepath.Join(s.dir, "slots%2fslot%2f0.d"))); err != nil {
		t.Fatal(err)
	}

	list, err := s.List(ctx, "slots/")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Fatalf("len(list) = %d, want 2: %v", len(list), list)
	}
	if list[0].Key != "slots/seat/0" {
		t.Errorf("list[0].Key = %q, want %q", list[0].Key, "slots/seat/0")
	}
	list, err = s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	if want := ([]string{"broken", "copy", "slots/seat/0", "slots/slot/0"}); !slices.Equal(keys, want) {
		t.Errorf("a long key cannot be recovered: keys = %q, want %q", keys, want)
	}
	got, err := s.Get(ctx, long)
	if err != nil {
		t.Fatalf("but it can be read by key: %v", err)
	}
	if len(got.Value) != 0 {
		t.Errorf("got.Value = %v, want none", got.Value)
	}
	got, err = s.Get(ctx, "copy")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Value) != 0 {
		t.Errorf("the record of another key does not belong to this one: got.Value = %v, want none", got.Value)
	}
}

// lead runs f as the work of one term of the lease.
func lead(t *testing.T, s leaderelect.LeaseStore, f func(context.Context, *leaderelect.Leadership)) {
	t.Helper()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error { f(ctx, l); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := elector.RunOnce(t.Context()); err != nil {
		t.Fatalf("elector.RunOnce(ctx): %v", err)
	}
}

func TestDamagedRecordBlocksItsLeaseForOneLeaseDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFiles(t, fastDir(t))
		for _, term := range []uint64{1, 2} {
			lead(t, s, func(_ context.Context, l *leaderelect.Leadership) {
				if got := l.Term(); got != term {
					t.Errorf("l.Term() = %v, want %v", got, term)
				}
			})
		}
		if err := os.WriteFile(s.newest(t, "lease"), []byte(`{"format":`), 0o644); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		lead(t, s, func(_ context.Context, l *leaderelect.Leadership) {
			if got := time.Since(begin); got < 15*time.Second {
				t.Errorf("time.Since(begin) = %v, want at least %v", got, 15*time.Second)
			}
			if got := time.Since(begin); got > 19*time.Second {
				t.Errorf("time.Since(begin) = %v, want at most %v", got, 19*time.Second)
			}
			if got := l.Term(); got <= uint64(2) {
				t.Errorf("l.Term() = %v, want more than %v", got, uint64(2))
			}
		})
	})
}

func TestTermsGrowAfterDamageOfFirstRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for records := range uint64(3) {
			s := openFiles(t, fastDir(t))
			have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a leader that crashed"), Term: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.newest(t, "lease"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			for range records {
				have, err = s.Get(t.Context(), "lease")
				if err != nil {
					t.Fatal(err)
				}
				have.Term++
				_, err = s.Update(t.Context(), have)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(s.newest(t, "lease"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			last := records + 1
			lead(t, s, func(_ context.Context, l *leaderelect.Leadership) {
				if got, want := l.Term(), last+1; got != want {
					t.Errorf("l.Term() = %v, want %v", got, want)
				}
			})
		}
	})
}

// A follower that sees the same version again believes that the record has not changed.
func TestEachDamageOfRecordHasItsOwnVersion(t *testing.T) {
	for what, damage := range map[string]func(s files){
		"an empty file": func(s files) {
			if err := os.WriteFile(s.newest(t, "lease"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"a file of another key": func(s files) {
			other, err := os.ReadFile(s.newest(t, "other"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.newest(t, "lease"), other, 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s := openFiles(t, fastDir(t))
		for _, key := range []string{"lease", "other"} {
			_, err := s.Create(t.Context(), leaderelect.Entry{Key: key, Term: 1})
			if err != nil {
				t.Fatal(err)
			}
		}
		damage(s)
		first, err := s.Get(t.Context(), "lease")
		if err != nil {
			t.Fatal(err)
		}
		same, err := s.Get(t.Context(), "lease")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, same); diff != "" {
			t.Fatalf("%v: same mismatch (-want +got):\n%s", what, diff)
		}
		_, err = s.Update(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		damage(s)
		second, err := s.Get(t.Context(), "lease")
		if err != nil {
			t.Fatal(err)
		}
		if second.Version == first.Version {
			t.Errorf("%v: second.Version = %q, want another", what, second.Version)
		}
		_, err = s.Update(t.Context(), first)
		if !errors.Is(err, leaderelect.ErrConflict) {
			t.Fatalf("%v: err = %v, want %v", what, err, leaderelect.ErrConflict)
		}
	}
}
