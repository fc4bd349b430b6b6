package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Config is the configuration of a [Backend]. The zero value is ready for use.
type Config struct {
	// Prefix begins all keys of the Backend, which are "PREFIX/layout" and those that begin with "PREFIX/objects/" and
	// "PREFIX/fences/". Two prefixes are two databases, whose versions can be compared. It has at most 256 bytes, does not end
	// with a slash, and none of its elements is layout, objects or fences. Defaults to "setpoint".
	Prefix string

	// History is the minimum number of revisions to keep. If it is set, writes of the Backend compact the cluster, including the data of
	// other programs. If processes differ, the smallest number counts. Zero leaves compaction to the cluster: see
	// --auto-compaction-retention of etcd. Leave it zero for a cluster that other programs share. With authentication, the user needs
	// the role root, which etcd requires for a compaction. Without it, Open returns an error, unless Existing is set.
	//
	// Tombstones stay as keys for at least as long as the history. Writing processes delete them step by step, about one compaction after
	// they have left the history. Until then, each deletion costs the space of the last state.
	History int

	// Poll is how often a watch requests its progress, for readers who wait for a version. After a write of the same Backend, the watch
	// requests it at once, but at most ten times a second. Values above 2.4 s count as 2.4 s. Defaults to 1 s.
	//
	// A watch that begins in the past gets its first change after up to 100 ms, and then at most 10,000 changes per second: etcd
	// reads the history ten times a second, and 1,000 revisions each time.
	Poll time.Duration

	// MaxRequestBytes is the value of --max-request-bytes of the servers. At least 256 KiB. Defaults to 1.5 MiB, as in etcd. A larger
	// record is refused with backend.ErrTooLarge. A record may have 32 KiB less than the limit. A write that changes the value must leave
	// 64 KiB more, so that every object can be deleted.
	MaxRequestBytes int

	// Existing makes Open return an error if the layout key of the prefix is missing, instead of writing it. Set it in programs
	// that only read: a mistyped prefix then leaves nothing behind.
	Existing bool

	_ [0]func()
}

// The part of MaxRequestBytes that a record may not use.
const (
	// keyBytes are for the keys of a transaction: that of the object six times, and those of a few fences.
	keyBytes = 32 << 10
	// endBytes are for writes that leave the value as it is, so that an object of the maximum size can be deleted.
	endBytes = 64 << 10

	minRequestBytes = 256 << 10
)

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "setpoint")
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, 3<<19)
	return c
}

func (c Config) validate() error {
	var errs []error
	if err := checkPrefix(c.Prefix, layoutElement, objectsElement, fencesElement); err != nil {
		errs = append(errs, fmt.Errorf("Config.Prefix is %q, %w", c.Prefix, err))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("Config.Poll is %v, must not be negative", c.Poll))
	}
	if c.MaxRequestBytes < minRequestBytes {
		errs = append(errs, fmt.Errorf("Config.MaxRequestBytes is %d, must not be less than %d", c.MaxRequestBytes, minRequestBytes))
	}
	return problems.Join(errs...)
}

// Backend is a [backend.Backend] under one prefix of an etcd cluster. One prefix may have any number of Backends, in one process or
// several. All methods are safe for concurrent use.
type Backend struct {
	backend.Kinds
	*conn
	cfg  Config
	keys keys
	trim trim
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Versioner = (*Backend)(nil)
)

// Open returns the backend under a prefix of the cluster of client. It writes the layout key if that is missing and [Config.Existing] is
// false. It returns an error if a field of cfg is invalid, or the keys under the prefix have another layout. It also returns an error if
// no endpoint of client answers, if one runs a version of etcd with a defect that makes watches wrong, and if [Config.History] is set but
// the user of client may not compact.
//
// Open starts nothing. It does not take over the client. Close the client after all calls have returned. A namespace of the client is
// ignored: use [Config.Prefix].
func Open(ctx context.Context, client *clientv3.Client, cfg Config) (*Backend, error) {
	if client == nil {
		panic("etcd: Open called with a nil client")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("etcd: open: %w", err)
	}
	b := &Backend{conn: connOf(client, cfg.Poll), cfg: cfg, keys: keys{cfg.Prefix}}
	if err := b.setUp(ctx, client); err != nil {
		return nil, failed(ctx, fmt.Sprintf("open prefix %q", cfg.Prefix), err)
	}
	return b, nil
}

// setUp checks the servers and the layout.
func (b *Backend) setUp(ctx context.Context, client *clientv3.Client) error {
	if err := checkServers(ctx, client); err != nil {
		return err
	}
	if b.cfg.History > 0 && !b.cfg.Existing {
		// Revision 1 is the empty database. So this compacts nothing, and usually fails because it was compacted long ago.
		if _, err := b.kv.Compact(ctx, 1); errors.Is(err, rpctypes.ErrPermissionDenied) {
			return fmt.Errorf("Config.History is %d, but the user may not compact: %w", b.cfg.History, err)
		}
	}
	key := b.keys.layout()
	found, err := b.kv.Get(ctx, key)
	if err != nil {
		return err
	}
	kvs := found.Kvs
	if len(kvs) == 0 && b.cfg.Existing {
		return fmt.Errorf("the key %q is missing, and Config.Existing is set", key)
	}
	if len(kvs) == 0 {
		// Other processes may be creating it at the same time.
		created, err := b.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, layout)).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return fmt.Errorf("create the key %q: %w", key, err)
		}
		b.cluster.observe(created.Header)
		if created.Succeeded {
			return nil
		}
		kvs = created.Responses[0].GetResponseRange().Kvs
	}
	b.cluster.observe(found.Header)
	if len(kvs) == 1 && string(kvs[0].Value) != layout {
		return fmt.Errorf("the keys have layout %q, this version of the library needs %q", kvs[0].Value, layout)
	}
	return nil
}

// Capabilities implements [backend.Backend].
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{MaxBytes: b.cfg.MaxRequestBytes - keyBytes}
}

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	s, _ := status.FromError(err)
	// The server enforces the deadline of ctx too, and its error may arrive just before ctx ends.
	if deadline, ok := ctx.Deadline(); ok && s.Code() == codes.DeadlineExceeded && time.Until(deadline) < time.Second {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("etcd: %s: %w", doing, context.Cause(ctx))
	}
	unsent := s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "trying to send message larger than max")
	switch {
	case errors.Is(err, rpctypes.ErrRequestTooLarge) || unsent:
		return fmt.Errorf("etcd: %s: %w: a request of etcd is limited by --max-request-bytes, 1.5 MiB by default: %w",
			doing, backend.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("etcd: %s: %w: the cluster was compacted in the meantime: %w", doing, backend.ErrExpired, err)
	}
	return fmt.Errorf("etcd: %s: %w", doing, err)
}
