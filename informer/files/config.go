package files

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Config is the configuration of a [Source]. Its zero value can be used.
type Config[T any] struct {
	// Match reports whether a file belongs to the source. path is relative to the root, with slashes. Names that begin with a dot, of files and
	// of directories, are never asked for: editors, git, and Kubernetes have their own files there. Defaults to all files but those whose names
	// begin with # or end in ~. Match must always return the same result for the same path, and be safe for concurrent use.
	Match func(path string) bool

	// Equal reports whether two states of an object are the same, so that there is nothing to report. Defaults to reflect.DeepEqual.
	Equal func(a, b T) bool

	// Valid returns an error for an object that must not be used, such as one without a required field. The object is unread then: see
	// [informer.Informer.Unread]. It affects no other object of the file. Defaults to no check.
	Valid func(T) error

	// Interval is the time from the end of one comparison of the whole tree to the next one. Defaults to 1 s, which 1,000 files cost about 5 ms
	// of CPU, and 100,000 files 0.5 s. With package notify, 30 s is enough. If it is negative, a watch compares only after a Nudge.
	Interval time.Duration

	// Settle is the time for which a file must not have changed before it is read, so that a half-written file is not. A file that never rests
	// is read after 20 times as long. Defaults to 50 ms. A negative value means that files are read at once.
	Settle time.Duration

	// Grace is the time for which no file may have a key, and nothing in the tree may have changed, before the object is deleted. If the tree
	// does not rest, it is deleted after 30 times as long. So an object that moves to another file is not deleted, nor is one whose file an editor
	// or git removes and writes again. Defaults to 2 s. A negative value means that an object is deleted at once.
	Grace time.Duration

	// ReadTimeout is how long one read of a file or of an entry of a directory may take. After that, the file or directory has a problem, and
	// the others are read. The read itself continues in a goroutine, because no system call can be interrupted, and until it ends there is no
	// other of the same path. Defaults to 5 s.
	ReadTimeout time.Duration

	// MaxSize is the largest number of bytes of a file. A larger one cannot be read. Defaults to 1 MiB.
	MaxSize int64

	// Empty permits a root without files. By default that is an error, because a directory that is not mounted is empty too.
	Empty bool

	// History is the minimum number of events that the source remembers for watches that resume. It also remembers all events of the last
	// comparison that found any. Defaults to 1000.
	History int
}

// withDefaults returns cfg with its defaults, or an error that names each field that is out of its bounds.
func (cfg Config[T]) withDefaults() (Config[T], error) {
	var errs []error
	if cfg.ReadTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.ReadTimeout is %v, must not be negative", cfg.ReadTimeout))
	}
	if cfg.MaxSize < 0 {
		errs = append(errs, fmt.Errorf("Config.MaxSize is %d, must not be negative", cfg.MaxSize))
	}
	if cfg.History < 0 {
		errs = append(errs, fmt.Errorf("Config.History is %d, must not be negative", cfg.History))
	}
	if cfg.Match == nil {
		cfg.Match = isNoBackup
	}
	if cfg.Equal == nil {
		cfg.Equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.Settle = cmp.Or(cfg.Settle, 50*time.Millisecond)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 5*time.Second)
	cfg.MaxSize = cmp.Or(cfg.MaxSize, 1<<20)
	cfg.History = cmp.Or(cfg.History, 1000)
	return cfg, problems.Join(errs...)
}

// isNoBackup reports whether no editor keeps its backups in a file of this name.
func isNoBackup(path string) bool {
	return !strings.HasSuffix(path, "~") && path[strings.LastIndexByte(path, '/')+1] != '#'
}
