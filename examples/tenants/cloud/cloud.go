// Package cloud is a fake cloud, for programs that need one. Like a real one, it is slow, and answers 429 to clients that call too often.
// It fails, loses resources, and delays a call when it is told to. It also does what every receiver of a leader's calls should do: once it
// has seen the term of a leader, it refuses changes with a lower one.
//
//	PUT    /resources/KEY            {"kind", "region", "owner"}: creates or changes the resource; returns {"revision"}
//	DELETE /resources/KEY?owner=UID  removes it, if it belongs to that owner; it need not exist
//	GET    /resources                {"revision", "items"}: all resources, as of that revision
//
// PUT and DELETE need a leader's headers, which a fencehttp.Transport sends.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/leaderelect/fence/fencehttp"
)

// Resource is a resource that costs money.
type Resource struct {
	Key      string `json:"key"`
	Kind     string `json:"kind"`
	Region   string `json:"region"`
	Owner    string `json:"owner"`    // the UID of its owner, which alone can change or remove it
	Revision uint64 `json:"revision"` // of its last change
}

// List is what GET returns.
type List struct {
	Revision uint64     `json:"revision"` // of the last change of any resource
	Items    []Resource `json:"items"`    // in order of key
}

// Config is the configuration of a [Cloud]. The zero value is ready for use.
type Config struct {
	// PerSecond is the number of calls a second that all callers may make together. Defaults to 5.
	PerSecond int

	// Latency is the time that each call takes. Defaults to 100 ms; a negative value means none.
	Latency time.Duration

	// Regions are the existing regions. Defaults to eu and us.
	Regions []string
}

// Cloud is the server. It outlives its callers, and forgets everything when its own process ends. All methods may be called
// concurrently.
type Cloud struct {
	http.Handler
	cfg   Config
	limit *rate.Limiter

	mu sync.Mutex
	// mu guards the following.
	resources map[string]Resource
	revision  uint64
	down      bool
	hold      *hold // of the next change; nil without one
	stats     Stats
}

// hold stops one request in the network, before it reaches the cloud.
type hold struct{ arrived, release chan struct{} }

// Stats counts the responses of a [Cloud].
type Stats struct {
	Calls   int // all calls
	Limited int // with 429
	Fenced  int // with 412, to former leaders
}

// New returns an empty cloud.
func New(cfg Config) (*Cloud, error) {
	if cfg.PerSecond < 0 {
		return nil, fmt.Errorf("cloud: new cloud: Config.PerSecond is %d, must not be negative", cfg.PerSecond)
	}
	if cfg.PerSecond == 0 {
		cfg.PerSecond = 5
	}
	if cfg.Latency == 0 {
		cfg.Latency = 100 * time.Millisecond
	}
	if cfg.Regions == nil {
		cfg.Regions = []string{"eu", "us"}
	}
	fences, err := fencehttp.NewServer(fencehttp.ServerConfig{}) // the leases are those of its callers, which it trusts
	if err != nil {
		return nil, err
	}
	c := &Cloud{cfg: cfg, limit: rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.PerSecond), resources: make(map[string]Resource)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /resources", c.list)
	mux.HandleFunc("PUT /resources/{key...}", c.change(c.put))
	mux.HandleFunc("DELETE /resources/{key...}", c.change(c.remove))
	c.Handler = c.front(fences.Wrap(mux))
	return c, nil
}

// Run serves a cloud at an address until ctx ends.
func Run(ctx context.Context, address string) error {
	c, err := New(Config{})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: c, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cloud: serve at %s: %w", address, err)
	}
	return nil
}

// SetDown begins or ends an outage, in which every call gets a 500.
func (c *Cloud) SetDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Lose makes a resource vanish, as if it had been removed by hand. It reports whether the resource existed.
func (c *Cloud) Lose(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.resources[key]
	if ok {
		c.revision++
		delete(c.resources, key)
	}
	return ok
}

// Hold stops the next change in the network: arrived is closed when it was sent, and it reaches the cloud after release.
func (c *Cloud) Hold() (arrived <-chan struct{}, release func()) {
	h := &hold{make(chan struct{}), make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = h
	return h.arrived, sync.OnceFunc(func() { close(h.release) })
}

// All returns all resources, as GET does.
func (c *Cloud) All() List {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := List{Revision: c.revision, Items: []Resource{}}
	for _, r := range c.resources {
		all.Items = append(all.Items, r)
	}
	slices.SortFunc(all.Items, func(a, b Resource) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// Stats returns the counts so far.
func (c *Cloud) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// front is the first handler of each call: the network, the outage, and the limit.
func (c *Cloud) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(c.cfg.Latency)
		c.mu.Lock()
		h := c.hold
		if h != nil && r.Method != http.MethodGet {
			c.hold = nil
		} else {
			h = nil
		}
		c.mu.Unlock()
		if h != nil {
			close(h.arrived)
			<-h.release
		}
		c.mu.Lock()
		c.stats.Calls++
		down, limited := c.down, !c.down && !c.limit.Allow()
		if limited {
			c.stats.Limited++
		}
		c.mu.Unlock()
		switch {
		case down:
			http.Error(w, "the cloud is down", http.StatusInternalServerError)
		case limited:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("the limit is %d calls a second", c.cfg.PerSecond), http.StatusTooManyRequests)
		default:
			next.ServeHTTP(&counter{w, c}, r)
		}
	})
}

// counter counts the refusals of former leaders.
type counter struct {
	http.ResponseWriter
	cloud *Cloud
}

func (c *counter) WriteHeader(status int) {
	if status == http.StatusPreconditionFailed {
		c.cloud.mu.Lock()
		c.cloud.stats.Fenced++
		c.cloud.mu.Unlock()
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *Cloud) list(w http.ResponseWriter, _ *http.Request) { reply(w, c.All()) }

// change makes a handler of a function that changes a resource.
func (c *Cloud) change(do func(r *http.Request) *refusal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if no := do(r); no != nil {
			http.Error(w, no.why, no.status)
			return
		}
		reply(w, map[string]uint64{"revision": c.All().Revision})
	}
}

// refusal is an unsuccessful response.
type refusal struct {
	status int
	why    string
}

// put creates or changes a resource. A resource that is already in the wanted state stays unchanged.
func (c *Cloud) put(r *http.Request) *refusal {
	want := Resource{}
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		return &refusal{http.StatusBadRequest, err.Error()}
	}
	want.Key = r.PathValue("key")
	if !slices.Contains(c.cfg.Regions, want.Region) {
		return &refusal{http.StatusUnprocessableEntity, fmt.Sprintf("there is no region %q", want.Region)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.resources[want.Key]
	if ok && have.Owner != want.Owner {
		return &refusal{http.StatusConflict, "it belongs to " + have.Owner}
	}
	if want.Revision = have.Revision; ok && want == have {
		return nil
	}
	c.revision++
	want.Revision = c.revision
	c.resources[want.Key] = want
	return nil
}

// remove removes a resource of an owner. A resource of another owner is a different one: the one of this owner is already gone.
func (c *Cloud) remove(r *http.Request) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.PathValue("key")
	if have, ok := c.resources[key]; ok && have.Owner == r.FormValue("owner") {
		c.revision++
		delete(c.resources, key)
	}
	return nil
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the cloud ignores callers that have gone
}
