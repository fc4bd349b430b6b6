package debug

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
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
	Replica     []string     `json:"-"`                    // the metadata of the replica that reconciles the key, if that is another one
	Stack       string       `json:"stack,omitempty"`      // of the goroutine, if the key is in flight
	LastSuccess time.Time    `json:"lastSuccess,omitzero"` // in History
	History     []endedView  `json:"history"`              // the latest first
	Objects     []objectView `json:"objects"`
	Events      []eventView  `json:"events"` // the latest first
	Tree        []treeView   `json:"tree"`
}

// endedView is a reconcile that has ended.
type endedView struct {
	At      time.Time `json:"at"`
	Took    float64   `json:"durationSeconds"`
	Outcome string    `json:"outcome"`
	Attempt int       `json:"attempt"`
	Error   string    `json:"error,omitempty"`
}

// The number of events, and of ended reconciles, on the page of a key.
const (
	eventsOfKey  = 50
	historyOfKey = 20
)

// remember fills in the reconciles of the key that have ended.
func (k *keyPage) remember(ended []controller.Ended) {
	for i, e := range ended {
		if e.Outcome == controller.Succeeded && k.LastSuccess.IsZero() {
			k.LastSuccess = e.At
		}
		if i < historyOfKey {
			k.History = append(k.History, endedView{e.At, e.Duration.Seconds(), strings.ToLower(e.Outcome.String()), e.Attempt, e.Error})
		}
	}
}

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
	k.Objects, k.History = []objectView{}, []endedView{}
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
		k.remember(in.History(k.Name))
		stats := c.Stats()
		k.Running, k.QueuePaused = stats.Running, stats.Paused
		if v.State == stateInFlight {
			k.Age = max(0, time.Since(v.Since).Seconds())
			k.Stack = string(in.Stack(k.Name))
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
		k.Slot, k.Why, k.Replica = at.slot, k.explain(at), at.replica()
	} else if text := caches[0].unreadText(k.Name); text != "" {
		k.Why = []string{text}
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
