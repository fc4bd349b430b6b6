//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// newest returns the path of the record file of a key.
func (f files) newest(t testing.TB, key string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(f.dir, key+".d", "*.lease"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
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
	pristine := openFiles(t, looptest.MemoryDir(t))
	have, err := pristine.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a value\nof two lines"), Term: 6})
	require.NoError(t, err)
	have.Term = 7
	_, err = pristine.Update(ctx, have)
	require.NoError(t, err)
	whole, err := os.ReadFile(pristine.newest(t, "lease"))
	require.NoError(t, err)

	for what, data := range damages(whole) {
		s := openFiles(t, looptest.MemoryDir(t))
		require.NoError(t, os.CopyFS(s.dir, os.DirFS(pristine.dir)))
		require.NoError(t, os.WriteFile(s.newest(t, "lease"), data, 0o644))
		got, err := s.Get(ctx, "lease")
		require.NoError(t, err, what)
		require.Empty(t, got.Value, what)
		require.NotEmpty(t, got.Version, what)
		require.Equal(t, uint64(7), got.Term, what)
		list, err := s.List(ctx, "lea")
		require.NoError(t, err, what)
		require.Equal(t, []leaderelect.Entry{got}, list, what)
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
		require.ErrorIs(t, err, leaderelect.ErrConflict, what)
		_, err = s.Update(ctx, have)
		require.ErrorIs(t, err, leaderelect.ErrConflict, what)

		got.Value = []byte("repaired")
		_, err = s.Update(ctx, got)
		require.NoError(t, err, what)
		repaired, err := s.Get(ctx, "lease")
		require.NoError(t, err, what)
		require.Equal(t, "repaired", string(repaired.Value), what)
	}
}

func TestDamagedRecordBlocksNoOtherKey(t *testing.T) {
	ctx := context.Background()
	s := openFiles(t, looptest.MemoryDir(t))
	long := strings.Repeat("k", 300)
	for _, key := range []string{"broken", long, "slots/slot/0", "slots/seat/0"} {
		_, err := s.Create(ctx, leaderelect.Entry{Key: key, Term: 1})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(s.newest(t, "broken"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(s.newest(t, "kkk*"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "x.lease"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "x.d"), []byte("{"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "empty.d"), 0o755))
	require.NoError(t, os.CopyFS(filepath.Join(s.dir, "copy.d"), os.DirFS(filepath.Join(s.dir, "slots%2fslot%2f0.d"))))

	list, err := s.List(ctx, "slots/")
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "slots/seat/0", list[0].Key)
	list, err = s.List(ctx, "")
	require.NoError(t, err)
	var keys []string
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	assert.Equal(t, []string{"broken", "copy", "slots/seat/0", "slots/slot/0"}, keys, "a long key cannot be recovered")
	got, err := s.Get(ctx, long)
	require.NoError(t, err, "but it can be read by key")
	assert.Empty(t, got.Value)
	got, err = s.Get(ctx, "copy")
	require.NoError(t, err)
	assert.Empty(t, got.Value, "the record of another key does not belong to this one")
}

// lead runs f as the work of one term of the lease.
func lead(t *testing.T, s leaderelect.LeaseStore, f func(context.Context, *leaderelect.Leadership)) {
	t.Helper()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error { f(ctx, l); return nil },
	})
	require.NoError(t, err)
	require.NoError(t, elector.RunOnce(t.Context()))
}

func TestDamagedRecordBlocksItsLeaseForOneLeaseDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFiles(t, looptest.MemoryDir(t))
		for _, term := range []uint64{1, 2} {
			lead(t, s, func(_ context.Context, l *leaderelect.Leadership) { assert.Equal(t, term, l.Term()) })
		}
		require.NoError(t, os.WriteFile(s.newest(t, "lease"), []byte(`{"format":`), 0o644))
		begin := time.Now()
		lead(t, s, func(_ context.Context, l *leaderelect.Leadership) {
			assert.GreaterOrEqual(t, time.Since(begin), 15*time.Second)
			assert.LessOrEqual(t, time.Since(begin), 19*time.Second)
			assert.Greater(t, l.Term(), uint64(2))
		})
	})
}

func TestTermsGrowAfterDamageOfFirstRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for records := range uint64(3) {
			s := openFiles(t, looptest.MemoryDir(t))
			have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a leader that crashed"), Term: 1})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(s.newest(t, "lease"), nil, 0o644))
			for range records {
				have, err = s.Get(t.Context(), "lease")
				require.NoError(t, err)
				have.Term++
				_, err = s.Update(t.Context(), have)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(s.newest(t, "lease"), nil, 0o644))
			}
			last := records + 1
			lead(t, s, func(_ context.Context, l *leaderelect.Leadership) { assert.Equal(t, last+1, l.Term()) })
		}
	})
}

// Nothing says the term anymore but the number of writes.
func TestTermsGrowAfterDamageOfAllKeptRecords(t *testing.T) {
	s := openFiles(t, looptest.MemoryDir(t))
	have, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	for term := uint64(2); term < 9; term++ {
		have.Term = term
		have, err = s.Update(t.Context(), have)
		require.NoError(t, err)
	}
	all, err := filepath.Glob(filepath.Join(s.dir, "lease.d", "*.lease"))
	require.NoError(t, err)
	require.Len(t, all, 8)
	for i, path := range all {
		if i < 4 {
			require.NoError(t, os.Remove(path), "as writers do")
		} else {
			require.NoError(t, os.WriteFile(path, nil, 0o644))
		}
	}
	got, err := s.Get(t.Context(), "lease")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, got.Term, uint64(8))
}

// A follower that sees the same version again believes that the record has not changed.
func TestEachDamageOfRecordHasItsOwnVersion(t *testing.T) {
	for what, damage := range map[string]func(s files){
		"an empty file": func(s files) { require.NoError(t, os.WriteFile(s.newest(t, "lease"), nil, 0o644)) },
		"a file of another key": func(s files) {
			other, err := os.ReadFile(s.newest(t, "other"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(s.newest(t, "lease"), other, 0o644))
		},
	} {
		s := openFiles(t, looptest.MemoryDir(t))
		for _, key := range []string{"lease", "other"} {
			_, err := s.Create(t.Context(), leaderelect.Entry{Key: key, Term: 1})
			require.NoError(t, err)
		}
		damage(s)
		first, err := s.Get(t.Context(), "lease")
		require.NoError(t, err)
		same, err := s.Get(t.Context(), "lease")
		require.NoError(t, err)
		require.Equal(t, first, same, what)
		_, err = s.Update(t.Context(), first)
		require.NoError(t, err)
		damage(s)
		second, err := s.Get(t.Context(), "lease")
		require.NoError(t, err)
		assert.NotEqual(t, first.Version, second.Version, what)
		_, err = s.Update(t.Context(), first)
		require.ErrorIs(t, err, leaderelect.ErrConflict, what)
	}
}
