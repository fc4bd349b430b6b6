package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// Config is the configuration of a [Backend]. The zero value is ready for use.
type Config struct {
	// Stream is the name of the stream, and the first token of all its subjects. It consists of letters, digits, - and _, up to
	// 64 of them. Defaults to "setpoint".
	//
	// The subjects are setpoint.o.KIND.KEY for objects, setpoint.f.LEASE for terms, setpoint.c.LEASE for their comparisons, and setpoint.h
	// for the mark of the history. A byte of a name that has a meaning in a subject, is not printable, or is not ASCII becomes =XX.
	//
	// Remove no messages by hand. If fewer are left than the history must have, all watches end with backend.ErrExpired, and informers
	// list again. Otherwise, the library cannot tell the removal from its own. Then a key disappears without a change, and caches keep it
	// until informer.Informer.Reset is called.
	//
	// A new stream begins at the number of microseconds since 1970. So a stream that was deleted and created again shares no version with
	// the one before, and every watch from an old version ends with backend.ErrExpired. This assumes that the clock was not set back in
	// between.
	Stream string

	// History is the number of changes, of all kinds, that the stream keeps for watches that resume. If processes differ, each trims to its
	// own number. Defaults to 100,000.
	//
	// The stream keeps this many sequences, and removes earlier messages that were superseded or deleted. A fenced write has two sequences,
	// so with fenced writes these are fewer changes. Deletions are kept equally long. Writers trim the history: about every 500th write
	// takes some tens of milliseconds longer. The mark of the history announces each removal at least five seconds before it happens. A
	// watch that has read the mark may rely on it for half of that time, so it need not ask before each change.
	History int

	// Poll is how often a watch asks the server for the last sequence of the stream. Changes of the watched kind do not wait for it;
	// bookmarks about other kinds do. Watches of one Backend share the requests. Values above 1 s count as 1 s. Defaults to 100 ms.
	Poll time.Duration

	// Timeout limits how long a request waits for the reply of the server. While no server answers for JetStream or for the stream, as in an
	// election of a cluster, Open and Create ask again for as long. Defaults to 5 s.
	Timeout time.Duration

	_ [0]func()
}

func (c Config) withDefaults() Config {
	c.Stream = cmp.Or(c.Stream, "setpoint")
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, 100*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	return c
}

func (c Config) validate() error {
	var errs []error
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(c.Stream) {
		errs = append(errs, fmt.Errorf("Config.Stream is %q, must be 1 to 64 letters, digits, - and _", c.Stream))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("Config.Poll is %v, must not be negative", c.Poll))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Config.Timeout is %v, must not be negative", c.Timeout))
	}
	return problems.Join(errs...)
}

// Backend is a [backend.Backend] in one stream of JetStream. All methods are safe for concurrent use.
type Backend struct {
	backend.Kinds
	handle
	cfg        Config
	subjects   subjects
	maxMessage int // the bytes of a message that the server and the stream accept
	progress   progress[position]
	trimmer    trimmer
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Versioner = (*Backend)(nil)
)

// StreamConfig returns the configuration of the stream that [Create] creates: file storage, one replica, no limits. Change
// the replicas, the placement, the storage, the compression, or the maximum number of bytes, also of a message, as you like, and create the
// stream with the result. Open refuses a stream that loses objects or cannot keep the promises of a backend.
//
// The sequence begins at the number of microseconds since 1970, so that a stream that is deleted and created again continues above the
// versions of the one before.
func StreamConfig(cfg Config) (jetstream.StreamConfig, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return jetstream.StreamConfig{}, fmt.Errorf("nats: StreamConfig: %w", err)
	}
	return streamConfig(cfg), nil
}

func streamConfig(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               cfg.Stream,
		Description:        "objects of github.com/setpoint-go/setpoint/store/nats",
		Subjects:           []string{cfg.Stream + ".>"},
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgsPerSubject:  -1,
		MaxMsgSize:         -1,
		MaxConsumers:       -1,
		Storage:            jetstream.FileStorage,
		Replicas:           1,
		FirstSeq:           uint64(time.Now().UnixMicro()),
		AllowAtomicPublish: true,
	}
}

// Create creates the stream of cfg, as [StreamConfig] describes it. If the stream exists and Open would accept it, Create changes nothing.
// Several processes may call it at once.
func Create(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	if js == nil {
		panic("nats: Create called with a nil JetStream")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("nats: create: %w", err)
	}
	create := func(ctx context.Context) error {
		stream, err := js.Stream(ctx, cfg.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			stream, err = js.CreateStream(ctx, streamConfig(cfg))
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			stream, err = js.Stream(ctx, cfg.Stream)
		}
		if err != nil {
			return err
		}
		return checkStream(stream.CachedInfo().Config, cfg)
	}
	err := whenAvailable(ctx, cfg.Timeout, func() error { return within(ctx, cfg.Timeout, create) })
	if err != nil {
		return failed(ctx, fmt.Sprintf("create stream %q", cfg.Stream), err)
	}
	return nil
}

// Open returns the backend in a stream that [Create] has created. It returns an error if a field of cfg is invalid, if the stream is
// missing, or if the stream or the server cannot keep the promises of a backend. nats-server must be 2.12 or newer: an older one cannot
// check a term together with a write. Open starts nothing. It does not take over the connection. Close the connection after all calls have
// returned.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Backend, error) {
	if js == nil {
		panic("nats: Open called with a nil JetStream")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("nats: open: %w", err)
	}
	b := &Backend{handle: handle{nc: js.Conn(), timeout: cfg.Timeout}, cfg: cfg, subjects: newSubjects(cfg.Stream)}
	b.progress.turn = make(chan struct{}, 1)
	b.trimmer.grace = grace
	find := func(ctx context.Context) (err error) {
		if b.stream, err = js.Stream(ctx, cfg.Stream); err != nil {
			return err
		}
		return checkStream(b.stream.CachedInfo().Config, cfg)
	}
	err := whenAvailable(ctx, cfg.Timeout, func() error { return within(ctx, cfg.Timeout, find) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errors.New("it does not exist: call nats.Create once")
	}
	if err == nil {
		b.maxMessage = int(b.nc.MaxPayload())
		if most := int(b.stream.CachedInfo().Config.MaxMsgSize); most > 0 {
			b.maxMessage = min(b.maxMessage, most)
		}
		if b.maxMessage < 2*overhead {
			err = fmt.Errorf("the server takes messages of %d bytes at most, must be %d: see max_payload", b.maxMessage, 2*overhead)
		}
	}
	if err == nil {
		err = whenAvailable(ctx, cfg.Timeout, func() error {
			_, err := b.position(ctx, time.Now())
			return err
		})
	}
	if err != nil {
		return nil, failed(ctx, fmt.Sprintf("open stream %q", cfg.Stream), err)
	}
	return b, nil
}

// overhead is the size of a message beyond the bytes that count for Capabilities.MaxBytes: headers, the key, and lengths.
const overhead = 8 << 10

// checkStream returns an error if a stream could lose objects, or lacks a feature that a backend needs.
func checkStream(have jetstream.StreamConfig, cfg Config) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(have.Subjects) != 1 || have.Subjects[0] != cfg.Stream+".>",
		"its subjects are %q, must be %q", have.Subjects, []string{cfg.Stream + ".>"})
	refuse(!have.AllowAtomicPublish,
		"it has no atomic publishes (allow_atomic), without which a former leader could write after its successor; nats-server has them since 2.12")
	refuse(have.Retention != jetstream.LimitsPolicy, "its retention is %v, must be limits", have.Retention)
	refuse(have.MaxMsgs > 0, "it keeps %d messages (max_msgs), must have no limit: it would forget objects", have.MaxMsgs)
	refuse(have.MaxAge > 0, "it keeps messages for %v (max_age), must have no limit: it would forget objects", have.MaxAge)
	refuse(have.MaxMsgsPerSubject > 0,
		"it keeps %d messages of a subject (max_msgs_per_subject), must have no limit: it would forget deletions", have.MaxMsgsPerSubject)
	refuse(have.MaxBytes > 0 && have.Discard != jetstream.DiscardNew,
		"it discards the oldest of more than %d bytes (max_bytes), must refuse new ones: it would forget objects", have.MaxBytes)
	refuse(have.DenyPurge, "it denies purges (deny_purge), which remove what is older than the history")
	refuse(have.AllowDirect, "it allows direct gets (allow_direct), with which a replica that lags could answer a read")
	refuse(have.MaxConsumers > 0, "it has at most %d consumers (max_consumers), must have no limit: each list and each watch has one", have.MaxConsumers)
	limit := have.ConsumerLimits.InactiveThreshold
	refuse(limit > 0 && limit < inactivity,
		"it removes an unread consumer after %v (consumer_limits.inactive_threshold), must wait at least %v", limit, inactivity)
	refuse(have.MaxMsgSize > 0 && have.MaxMsgSize < 2*overhead,
		"it takes messages of %d bytes at most (max_msg_size), must be %d", have.MaxMsgSize, 2*overhead)
	refuse(have.AllowMsgCounter, "its messages are counters (allow_msg_counter)")
	refuse(have.NoAck, "it acknowledges nothing (no_ack)")
	refuse(have.Sealed, "it is sealed")
	refuse(have.Mirror != nil || len(have.Sources) > 0 || have.SubjectTransform != nil, "it mirrors, sources or transforms messages")
	return problems.Join(errs...)
}

// Capabilities implements [backend.Backend].
func (b *Backend) Capabilities() backend.Capabilities {
	return backend.Capabilities{MaxBytes: b.maxMessage - overhead}
}

// errSilent means that the server has not answered in time.
var errSilent = errors.New("the server has not answered")

// within calls f with a context that ends after d.
func within(ctx context.Context, d time.Duration, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, d, errSilent)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w within %v: %w", errSilent, d, err)
	}
	return err
}

// pause is how long whenAvailable waits before it asks again.
const pause = 50 * time.Millisecond

// codeNotAvailable is the error code of a server that knows no leader of JetStream.
const codeNotAvailable = 10008

// whenAvailable calls f, and calls it again for a time while no server answers for JetStream. A server without JetStream cannot be
// distinguished from a cluster without a leader.
func whenAvailable(ctx context.Context, d time.Duration, f func() error) error {
	for begin := time.Now(); ; {
		err := f()
		api := new(jetstream.APIError)
		unavailable := errors.Is(err, natsgo.ErrNoResponders) || errors.As(err, &api) && api.ErrorCode == codeNotAvailable
		if !unavailable || time.Since(begin) > d || wait.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("nats: %s: %w", doing, context.Cause(ctx))
	}
	if errors.Is(err, natsgo.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
		return fmt.Errorf("nats: %s: %w: %w", doing, backend.ErrTooLarge, err)
	}
	return fmt.Errorf("nats: %s: %w", doing, err)
}
