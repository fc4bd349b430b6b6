//go:build linux

package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sys/unix"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// nodeVar is the variable that makes a process of the test binary a node.
const nodeVar = "BACKENDTEST_NODE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(nodeVar); spec != "" {
		if err := runNode(spec); err != nil {
			fmt.Println(line{What: "failed", Error: err.Error()})
			os.Exit(1)
		}
		return
	}
	if spec := os.Getenv(fencingVar); spec != "" {
		if err := runFencing(spec); err != nil {
			say(remark{What: "failed", Error: err.Error()})
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// nodeSpec configures a node.
type nodeSpec struct {
	Backend  string // postgres, mariadb, redis, sqlite, file
	Addr     string // of the server, or of the proxy before it; the file, or the directory
	Counter  string // a file with a number, which nothing guards
	Identity string
	Lease    time.Duration
	Early    bool    // takeover, as soon as the process of the leader is gone: for Postgres and MariaDB
	Clock    float64 // how many seconds pass in one second of its clock; 0 is 1
}

// timing is the timing of the electors: the proportions of the defaults, faster. With clocks of many speeds RenewDeadline is half
// as long, and the electors are told that one may be 1.86 times as fast as another.
func (s nodeSpec) timing(cfg *leaderelect.Config) {
	cfg.LeaseDuration, cfg.RetryPeriod = s.Lease, s.Lease/8
	if s.Clock == 0 {
		return
	}
	pass := func(d time.Duration) time.Duration { return time.Duration(float64(d) * s.Clock) }
	cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = pass(s.Lease), pass(s.Lease/3), pass(s.Lease/12)
	cfg.MaxClockRateSkew = 0.86
	cfg.Store = clock{cfg.Store, s.Clock}
}

// line is a line of the output of a node, one JSON object each. Times are those of the clock that all processes share.
type line struct {
	What  string        // begin, end, knows, stops, trouble, failed, stopped
	Term  uint64        `json:",omitempty"`
	New   string        `json:",omitempty"` // the value that an action writes: no two write the same
	Old   string        `json:",omitempty"` // of end: the value that it has replaced
	Said  string        `json:",omitempty"` // of end: done, refused, refrained, or unknown
	Added bool          `json:",omitempty"` // of end: the counter was raised
	At    time.Duration `json:",omitempty"`
	Error string        `json:",omitempty"`
}

func (l line) String() string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // it is plain data
	}
	return string(text)
}

// now reads the clock that all processes of the host share, and that continues while one is stopped.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// pause is the time between two actions of a leader.
const pause = 5 * time.Millisecond

// runNode runs an elector, and as a leader acts, until it gets a SIGTERM or its parent dies.
func runNode(text string) error {
	var spec nodeSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	logging.Disable()
	store, reg, err := spec.open()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, stopInAction)
	// Ends with the parent, and with it the node.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	cfg := leaderelect.Config{
		Store: store, Key: "lease", Identity: spec.Identity, ReleaseOnCancel: true, Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			for i := 0; ctx.Err() == nil && l.Err() == nil; i++ {
				act(l, reg, spec.Counter, fmt.Sprintf("%d-%d-%d", os.Getpid(), l.Term(), i), stops)
				time.Sleep(pause)
			}
			return nil
		},
		Hooks: leaderelect.Hooks{Request: func(op string, took time.Duration, err error) {
			if err != nil && !errors.Is(err, leaderelect.ErrConflict) && !errors.Is(err, leaderelect.ErrNotFound) {
				fmt.Println(line{What: "trouble", Error: fmt.Sprintf("%s, %v: %v", op, took, err)})
			}
		}},
		OnNewLeader: func(l leaderelect.Leader) { fmt.Println(line{What: "knows", Term: l.Term}) },
	}
	spec.timing(&cfg)
	if spec.Early {
		if cfg.Sessions, err = spec.sessions(); err != nil {
			return err
		}
		cfg.Fenced = true // act does nothing else that counts
	}
	elector, err := leaderelect.New(cfg)
	if err != nil {
		return err
	}
	if err := elector.Run(ctx); err != nil {
		return err
	}
	fmt.Println(line{What: "stopped", At: now()})
	return nil
}

// stopInAction makes a leader stop its process in the middle of its next action, as if it were by chance. SIGCONT has it
// go on.
const stopInAction = syscall.SIGUSR1

// act does what only a leader may: it raises a counter that nothing guards, and writes to a register that is fenced. It has
// asked whether it leads just before.
func act(l *leaderelect.Leadership, reg fenced, counter, value string, stops <-chan os.Signal) {
	fmt.Println(line{What: "begin", Term: l.Term(), New: value, At: now()})
	end := line{What: "end", Term: l.Term(), New: value, Said: "unknown"}
	if l.Err() == nil { // writing the line may have taken its time
		ctx, cancel := l.Context(), func() {}
		end.Added = raise(counter, func() {
			select {
			case <-stops:
				fmt.Println(line{What: "stops", At: now()})
				stopHere()
				ctx, cancel = context.WithTimeout(context.Background(), patience) // the other write is as good as sent
			default:
			}
		}) == nil
		defer cancel()
		old, err := reg.swap(ctx, l.Term(), value)
		switch {
		case err == nil:
			end.Old, end.Said = old, "done"
		case errors.Is(err, errRefused):
			end.Said = "refused"
		default:
			end.Error = err.Error()
		}
	} else {
		end.Said = "refrained"
	}
	end.At = now()
	fmt.Println(end)
}

// stopHere stops this process, and returns when it goes on: this thread is the first to be stopped.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		panic(err)
	}
}

// raise adds 1 to the number in a file as if it were alone: it reads, and then writes.
func raise(file string, between func()) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := readCounter(f)
	if err != nil {
		return err
	}
	between()
	_, err = f.WriteAt(fmt.Appendf(nil, "%020d", n+1), 0)
	return err
}

func readCounter(f io.ReaderAt) (int, error) {
	buffer := make([]byte, 20)
	n, err := f.ReadAt(buffer, 0)
	if n == 0 && errors.Is(err, io.EOF) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(buffer))
}

// node is a process that competes for the lease.
type node struct {
	slot int
	pid  int
	stop func(syscall.Signal) error

	mu sync.Mutex
	// mu guards the following.
	actions []action
	state   string // running, stops, stopped, failed: text, dead
	knows   uint64 // the term of the last leader that it has seen

	troubles int    // calls of the store without a clear answer
	trouble  string // the last of them
	over     chan struct{}
}

// action is an action of a leader.
type action struct {
	node       *node
	term       uint64
	new, old   string
	said       string // done, refused, refrained, unknown; "" if the node did not say
	added      bool
	begin, end time.Duration // end is that of the node if it did not say
	why        string
}

// String is for messages.
func (a action) String() string {
	return fmt.Sprintf("{node %d, term %d, %v to %v, %q for %q: %s %s}", a.node.pid, a.term, a.begin, a.end, a.new, a.old, a.said, a.why)
}

// read reads the output of a node until it ends.
func (n *node) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			l = line{What: "failed", Error: "it says " + lines.Text()}
		}
		n.mu.Lock()
		switch l.What {
		case "begin":
			n.actions = append(n.actions, action{node: n, term: l.Term, new: l.New, begin: l.At})
		case "end":
			a := &n.actions[len(n.actions)-1]
			a.old, a.said, a.added, a.end, a.why = l.Old, l.Said, l.Added, l.At, l.Error
		case "knows":
			n.knows = l.Term
		case "trouble":
			n.trouble, n.troubles = l.Error, n.troubles+1
		case "failed":
			n.state = "failed: " + l.Error
		default:
			n.state = l.What
		}
		n.mu.Unlock()
	}
}

// report says how the node is.
func (n *node) report() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("node %d is %s, knows of term %d, has begun %d actions; %d calls failed, the last: %q",
		n.pid, n.state, n.knows, len(n.actions), n.troubles, n.trouble)
}

// last returns the last action that was done, and whether there is one.
func (n *node) last() (action, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := len(n.actions) - 1; i >= 0; i-- {
		if n.actions[i].said == "done" {
			return n.actions[i], true
		}
	}
	return action{}, false
}

// failure returns the error of the node, or "".
func (n *node) failure() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, _ := strings.CutPrefix(n.state, "failed: ")
	if text == n.state {
		return ""
	}
	return text
}
