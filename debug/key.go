package debug

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

// keyPage is the page of one key.
type keyPage struct {
	header
	Queue    string   `json:"queue,omitempty"`
	Informer string   `json:"informer,omitempty"`
	Name     string   `json:"name"` // the text of the key
	Why      []string `json:"why,omitempty"`

	Key         *keyView     `json:"key,omitempty"`  // the state in the queue; none without a queue
	Slot        *slotView    `json:"slot,omitempty"` // that holds the key; none without slots
	Running     bool         `json:"running"`        // of the queue
	QueuePaused bool         `json:"queuePaused"`
	Age         float64      `json:"ageSeconds,omitempty"` // time in flight
	Stack       string       `json:"stack,omitempty"`      // of the goroutine, if the key is in flight
	Objects     []objectView `json:"objects"`
	Events      []eventView  `json:"events"` // the latest first
	Tree        []treeView   `json:"tree"`
}

const (
	eventsOfKey = 50
	stackPeriod = 5 * time.Second // between two stacks, because taking one stops all goroutines
)

// key makes the page of one key.
func (h *Handler) key(r *http.Request) (page, error) {
	ps := h.parts()
	h.sample(ps)
	form := r.URL.Query()
	k := &keyPage{header: h.header(ps, form.Get("queue")), Queue: form.Get("queue"), Informer: form.Get("informer"), Name: form.Get("key")}
	c, isQueue := find[aController](ps, k.Queue)
	if k.Queue != "" && !isQueue {
		return page{}, notFound("There is no controller %q.", k.Queue)
	}
	var caches []cached
	if isQueue {
		caches = cachesOf(c)
	} else if in, ok := find[anInformer](ps, k.Informer); ok {
		caches = []cached{{k.Informer, in}}
	} else {
		return page{}, notFound("There is no informer %q.", k.Informer)
	}
	if id := form.Get("id"); id != "" {
		name, ok := lookUp(c, caches, id)
		if !ok {
			return page{}, notFound("There is no key with the digest %q.", id)
		}
		k.Name = name
	}
	k.Objects = []objectView{}
	var about []store.Ref
	for _, s := range caches {
		if obj, ok := s.get(k.Name); ok {
			v := h.objectView(s, obj)
			if v.Kind != "" {
				about = append(about, store.Ref{Kind: v.Kind, Key: v.Key, UID: v.UID})
			}
			k.Objects = append(k.Objects, v)
		}
	}
	if isQueue {
		in := c.Inspect()
		info, known := in.Key(k.Name)
		if !known && len(k.Objects) == 0 {
			return page{}, notFound("The controller %q knows no key %q.", k.Queue, k.Name)
		}
		info.Key = k.Name
		v := viewOf(k.Queue, info)
		k.Key = &v
		stats := c.Stats()
		k.Running, k.QueuePaused = stats.Running, stats.Paused
		if v.State == stateInFlight {
			k.Age = max(0, time.Since(v.Since).Seconds())
			k.Stack = h.pages.stacks.of(flight{k.Queue, k.Name, v.Since}, in.Stack)
		}
	}
	k.Events = h.eventsOf(ps, func(e events.Event) bool {
		if len(about) == 0 {
			return e.About.Key == k.Name
		}
		return slices.ContainsFunc(about, func(ref store.Ref) bool { return e.About.Kind == ref.Kind && e.About.Key == ref.Key })
	}, eventsOfKey)
	k.Tree = treeOf(ps, about)
	if isQueue {
		at := situationOf(ps, c, k.Name)
		k.Slot, k.Why = at.slot, k.explain(at)
	}
	return page{"key", k}, nil
}

// JSONLink returns the link to the page as JSON, and ActLink the address of its actions.
func (k *keyPage) JSONLink() string { return k.link() + "&format=json" }
func (k *keyPage) ActLink() string  { return "act" + strings.TrimPrefix(k.link(), "key") }

func (k *keyPage) link() string {
	if k.Queue == "" {
		return informerLink(k.Informer, k.Name)
	}
	return keyLink(k.Queue, k.Name)
}

// stacks caches the last stack of each reconcile that has been viewed.
type stacks struct {
	mu sync.Mutex
	// mu guards the following. It is held while a stack is taken, so that two viewers take one.
	last map[flight]stackAt
}

// flight is one reconcile of a key.
type flight struct {
	queue, key string
	since      time.Time
}

type stackAt struct {
	text string
	at   time.Time
}

// of returns the stack of a reconcile. If the last one is too old, it calls read.
func (s *stacks) of(id flight, read func(string) []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	old, ok := s.last[id]
	if ok && now.Sub(old.at) < stackPeriod {
		return old.text
	}
	text := string(read(id.key))
	for other, one := range s.last {
		if now.Sub(one.at) >= stackPeriod {
			delete(s.last, other)
		}
	}
	if s.last == nil {
		s.last = make(map[flight]stackAt)
	}
	s.last[id] = stackAt{text, now}
	return text
}
