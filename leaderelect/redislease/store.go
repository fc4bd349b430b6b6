package redislease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
)

// Store is a leaderelect.LeaseStore and a shard.Lister in a Redis server, with one hash per lease. The package documentation
// has its guarantees, and the limits of Redis.
//
// All methods may be called concurrently, if those of the client may.
type Store struct {
	client Client
	prefix string
}

// New returns a store that uses client. New panics if client is nil.
func New(client Client, cfg Config) *Store {
	if client == nil {
		panic("redislease: New: the client is nil")
	}
	return &Store{client: client, prefix: cfg.withDefaults().Prefix}
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	found, err := s.read(ctx, []string{key})
	if err == nil && len(found) == 0 {
		err = leaderelect.ErrNotFound
	}
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("redislease: get %q: %w", key, err)
	}
	return found[0], nil
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := s.put(ctx, e, createScript)
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("redislease: create %q: %w", e.Key, err)
	}
	return e, nil
}

// Update replaces a record, or returns leaderelect.ErrConflict.
func (s *Store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	e, err := s.put(ctx, e, updateScript, e.Version)
	if err != nil {
		return leaderelect.Entry{}, fmt.Errorf("redislease: update %q: %w", e.Key, err)
	}
	return e, nil
}

// put stores e under a new version with a script that returns whether it has stored it.
func (s *Store) put(ctx context.Context, e leaderelect.Entry, script string, more ...any) (leaderelect.Entry, error) {
	// Random, and not counted, so that a version is not reused even if the record was deleted or restored.
	e.Version, e.Floor = rand.Text(), 0
	e.Value = slices.Clone(e.Value)
	args := append([]any{e.Version, strconv.FormatUint(e.Term, 10), string(e.Value), e.Key}, more...)
	reply, err := s.eval(ctx, script, []string{s.name(e.Key), s.prefix}, args...)
	if err != nil {
		return e, err
	}
	switch reply {
	case int64(1):
		return e, nil
	case int64(0):
		return e, leaderelect.ErrConflict
	default:
		return e, unexpected(reply)
	}
}

// chunk is the maximum number of records that one script reads. Redis serves no other client meanwhile.
const chunk = 100

// List returns the records whose keys begin with prefix, sorted by key. It reads the keys of all leases, and then the
// records in several calls, so it is no snapshot of one moment.
func (s *Store) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	list, err := s.list(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("redislease: list %q: %w", prefix, err)
	}
	return list, nil
}

func (s *Store) list(ctx context.Context, prefix string) (list []leaderelect.Entry, err error) {
	reply, err := s.eval(ctx, keysScript, []string{s.prefix})
	if err != nil {
		return nil, err
	}
	members, ok := reply.([]any)
	if !ok {
		return nil, unexpected(reply)
	}
	var keys []string
	for _, m := range members {
		key, ok := text(m)
		if !ok {
			return nil, unexpected(m)
		}
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for some := range slices.Chunk(keys, chunk) {
		found, err := s.read(ctx, some)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// read returns the records of those keys that have one.
func (s *Store) read(ctx context.Context, keys []string) (found []leaderelect.Entry, err error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.name(key)
	}
	reply, err := s.eval(ctx, getScript, names)
	if err != nil {
		return nil, err
	}
	records, ok := reply.([]any)
	if !ok || len(records) != len(keys) {
		return nil, unexpected(reply)
	}
	for i, record := range records {
		fields, ok := record.([]any)
		if ok && len(fields) == 0 {
			continue
		}
		if !ok || len(fields) != 3 {
			return nil, unexpected(record)
		}
		version, ok1 := text(fields[0])
		term, ok2 := text(fields[1])
		value, ok3 := text(fields[2])
		n, err := strconv.ParseUint(term, 10, 64)
		if !ok1 || !ok2 || !ok3 || err != nil || version == "" {
			return nil, unexpected(record)
		}
		found = append(found, leaderelect.Entry{Key: keys[i], Value: []byte(value), Term: n, Version: version})
	}
	return found, nil
}

// answers are the errors with which a store of leases answers a call.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict}

// eval runs a script, unless ctx has ended.
func (s *Store) eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	if ctx.Err() != nil {
		return nil, ended.Err(ctx, context.Cause(ctx), answers)
	}
	reply, err := s.client.Eval(ctx, script, keys, args...)
	if err != nil && isLasting(err) {
		err = retry.Permanent(err)
	}
	return reply, err
}

// isLasting reports whether the server has refused a script for a reason that does not pass by itself. The first word of the text of an
// error of Redis is its code, and a client may wrap it. A replica (READONLY) and a server that loads its data (LOADING) do pass.
func isLasting(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		code, _, _ := strings.Cut(err.Error(), " ")
		switch code {
		case "NOAUTH", "NOPERM", "WRONGPASS", "WRONGTYPE", "CROSSSLOT":
			return true
		}
	}
	return false
}

// name returns the name of the hash of a lease.
func (s *Store) name(key string) string { return s.prefix + ":" + key }

// text returns a reply that is a bulk string. Clients use different types for it.
func text(reply any) (string, bool) {
	switch reply := reply.(type) {
	case string:
		return reply, true
	case []byte:
		return string(reply), true
	default:
		return "", false
	}
}

// unexpected is the error for a reply that no script of the store returns.
func unexpected(reply any) error {
	return fmt.Errorf("unexpected reply %.100q (%T)", fmt.Sprint(reply), reply)
}
