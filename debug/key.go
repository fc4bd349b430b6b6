package debug

import (
	"fmt"
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
	Queue  string   `json:"queue,omitempty"`
	Source string   `json:"source,omitempty"`
	Name   string   `json:"name"` // the text of the key
	Why    []string `json:"why,omitempty"`

	Key         *keyView     `json:"key,omitempty"` // the state in the queue; none without a queue
	Running     bool         `json:"running"`       // of the queue
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
	k := &keyPage{header: h.header(ps, form.Get("queue")), Queue: form.Get("queue"), Source: form.Get("source"), Name: form.Get("key")}
	c, isQueue := find[aController](ps, k.Queue)
	if k.Queue != "" && !isQueue {
		return page{}, notFound("There is no controller %q.", k.Queue)
	}
	var sources []source
	if isQueue {
		sources = sourcesOf(c)
	} else if in, ok := find[anInformer](ps, k.Source); ok {
		sources = []source{{k.Source, in}}
	}
	if id := form.Get("id"); id != "" {
		name, ok := lookUp(c, sources, id)
		if !ok {
			return page{}, notFound("There is no key with the digest %q.", id)
		}
		k.Name = name
	}
	k.Objects = []objectView{}
	var about []store.Ref
	for _, s := range sources {
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
			k.Stack = h.pages.stacks.of(k.Queue, k.Name, in.Stack)
		}
		k.Why = k.explain()
	}
	k.Events = h.eventsOf(ps, func(e events.Event) bool {
		if len(about) == 0 {
			return e.About.Key == k.Name
		}
		return slices.ContainsFunc(about, func(ref store.Ref) bool { return e.About.Kind == ref.Kind && e.About.Key == ref.Key })
	}, eventsOfKey)
	k.Tree = treeOf(ps, about)
	return page{"key", k}, nil
}

// JSONLink returns the link to the page as JSON, and ActLink the address of its actions.
func (k *keyPage) JSONLink() string { return k.link() + "&format=json" }
func (k *keyPage) ActLink() string  { return "act" + strings.TrimPrefix(k.link(), "key") }

func (k *keyPage) link() string {
	if k.Queue == "" {
		return sourceLink(k.Source, k.Name)
	}
	return keyLink(k.Queue, k.Name)
}

// explain returns sentences that say why the key is not done.
func (k *keyPage) explain() (why []string) {
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	v, now := k.Key, k.Now
	switch v.State {
	case stateInFlight:
		say("A worker has been reconciling it for %s. This is attempt %d.", span(now.Sub(v.Since)), max(1, v.Attempt))
		if v.Dirty {
			say("It was added again in the meantime, so it will be reconciled once more.")
		}
	case stateReady:
		say("It has been ready for %s, and waits for a worker.", span(now.Sub(v.Since)))
	case stateHeld:
		switch {
		case v.HeldBy == "pause":
			say("It is paused. It will be reconciled after it is resumed.")
		case v.HeldBy == "drain":
			say("The controller drains. The next run reconciles it.")
		case v.HeldBy == "next run":
			say("A store refused its write, because another replica leads. The next run reconciles it.")
		case strings.HasPrefix(v.HeldBy, "cache "):
			say("The cache %s does not yet show the writes of its last reconcile.%s", strings.TrimPrefix(v.HeldBy, "cache "), until(v, now))
		default:
			say("Its %s are not met yet.%s", v.HeldBy, until(v, now))
		}
	case stateDelayed:
		switch {
		case !v.QuietUntil.IsZero() && (v.Next.IsZero() || v.QuietUntil.Before(v.Next)):
			say("It changes often. It will be ready in %s, if it stays quiet.", span(v.QuietUntil.Sub(now)))
		case v.Failures > 0:
			say("It failed %s, and will be retried in %s.", times(v.Failures), span(v.Next.Sub(now)))
		default:
			say("It will be reconciled again in %s, as its last reconcile requested.", span(v.Next.Sub(now)))
		}
	case stateParked:
		say("It was given up %s ago. Only a change or a retry brings it back.", span(now.Sub(v.Since)))
	case statePaused:
		say("It is paused. If it is added, it is held until it is resumed.")
	default:
		say("Nothing to do: there has been no change since its last reconcile.")
	}
	if v.Paused && v.State != stateHeld && v.State != statePaused {
		say("It is paused: no new reconcile of it will start.")
	}
	if k.QueuePaused {
		say("The whole controller is paused.")
	}
	if !k.Running {
		say("The controller is not running here: it is waiting for its stage, its caches, or the leadership.")
	}
	return why
}

// until returns a sentence about the end of the wait of a held key.
func until(v *keyView, now time.Time) string {
	if v.HeldUntil.IsZero() {
		return ""
	}
	return fmt.Sprintf(" It waits for at most another %s.", span(v.HeldUntil.Sub(now)))
}

// times returns n as text: "once", "twice", and so on.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return thousands(n) + " times"
}

// stacks caches the last stack of each key that has been viewed.
type stacks struct {
	mu sync.Mutex
	// mu guards the following.
	last map[[2]string]stackAt
}

type stackAt struct {
	text string
	at   time.Time
}

// of returns the stack of a key. If the last one is too old, it calls read.
func (s *stacks) of(queue, key string, read func(string) []byte) string {
	id, now := [2]string{queue, key}, time.Now()
	s.mu.Lock()
	old, ok := s.last[id]
	s.mu.Unlock()
	if ok && now.Sub(old.at) < stackPeriod {
		return old.text
	}
	text := string(read(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, one := range s.last {
		if now.Sub(one.at) >= stackPeriod {
			delete(s.last, other)
		}
	}
	if s.last == nil {
		s.last = make(map[[2]string]stackAt)
	}
	s.last[id] = stackAt{text, now}
	return text
}
