package debug

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// findPage is the page of the places that have a key.
type findPage struct {
	header
	Name  string      `json:"name"` // the text of the key
	Found []placeView `json:"found"`
}

// placeView is a queue or a cache that has a key.
type placeView struct {
	Queue    string `json:"queue,omitempty"`
	Informer string `json:"informer,omitempty"` // whose cache has the key; none for a queue
	State    string `json:"state"`              // of the key in the queue, or stateCached or stateUnread
	Link     string `json:"link"`
}

// The states of a key in a cache.
const (
	stateCached = "cached"
	stateUnread = "unread" // its object exists and cannot be read
)

// find makes the page of the places that have a key.
func (h *Handler) find(r *http.Request) (page, error) {
	ps := h.parts()
	h.sample(ps)
	f := &findPage{header: h.header(ps, ""), Name: r.URL.Query().Get("key"), Found: []placeView{}}
	if f.Name == "" {
		return page{"find", f}, nil
	}
	each(ps, func(name string, c aController) { f.Found = append(f.Found, inQueue(name, c, f.Name)...) })
	each(ps, func(name string, in anInformer) { f.Found = append(f.Found, ps.inCache(cached{name, in}, f.Name)...) })
	return page{"find", f}, nil
}

// JSONLink returns the link to the page as JSON.
func (f *findPage) JSONLink() string { return findLink(f.Name) + "&format=json" }

// inQueue returns the queue of c as the place of a key, or nothing if the key is not in it.
func inQueue(name string, c aController, key string) []placeView {
	if info, known := c.Inspect().Key(key); known {
		if state := stateOf(info); state != stateIdle {
			return []placeView{{Queue: name, State: state, Link: keyLink(name, key)}}
		}
	}
	return nil
}

// inCache returns a cache as the place of a key, or nothing if the cache neither has it nor knows that it exists.
func (ps parts) inCache(s cached, key string) []placeView {
	state := stateUnread
	if s.unread(key) == nil {
		if _, ok := s.get(key); !ok {
			return nil
		}
		state = stateCached
	}
	return []placeView{{Informer: s.name, State: state, Link: ps.objectLink(s, key)}}
}

// placesOf returns the places that have a key: the queue of c, and the caches of its informers.
func (ps parts) placesOf(name string, c aController, key string) []placeView {
	places := inQueue(name, c, key)
	for _, s := range cachesOf(c) {
		places = append(places, ps.inCache(s, key)...)
	}
	return places
}

// objectLink returns the link to the page of an object of a cache: that of the controller that reconciles it, if there is one.
func (ps parts) objectLink(s cached, key string) string {
	if queue := ps.queueOf(s.value); queue != "" {
		return keyLink(queue, key)
	}
	return informerLink(s.name, key)
}

// kinds returns, by kind, a cache of the objects of that kind. It has no kind of which no object is cached.
func (ps parts) kinds() map[string]cached {
	kinds := make(map[string]cached)
	each(ps, func(name string, in anInformer) {
		s := cached{name, in}
		for _, v := range s.all() {
			if o, ok := storedOf(concrete(v)); ok && kinds[o.Kind].value == nil {
				kinds[o.Kind] = s
			}
			return // the others are of the same kind
		}
	})
	return kinds
}

// informerPage is the page of the keys of a cache.
type informerPage struct {
	header
	Informer informerView `json:"informer"`
	Query    string       `json:"query"`
	Total    int          `json:"total"` // the number of keys that contain Query
	Page     int          `json:"page"`  // counted from 1
	Pages    int          `json:"pages"`
	Keys     []objectKey  `json:"keys"` // those that cannot be read first
	Missing  string       `json:"missingError,omitempty"`
}

// objectKey is the key of an object of a cache.
type objectKey struct {
	Key    string `json:"key"`
	Link   string `json:"link"`
	Unread string `json:"unreadError,omitempty"` // why the object cannot be read
}

// informer makes the page of the keys of a cache.
func (h *Handler) informer(r *http.Request) (page, error) {
	ps := h.parts()
	h.sample(ps)
	form := r.URL.Query()
	name := form.Get("name")
	in, ok := find[anInformer](ps, name)
	if !ok {
		return page{}, notFound("There is no informer %q.", name)
	}
	p := &informerPage{header: h.header(ps, name), Informer: informerOf(name, in), Query: form.Get("q"), Page: pageNumber(form)}
	if missing, ok := in.(interface{ Missing() error }); ok && missing.Missing() != nil {
		p.Missing = missing.Missing().Error()
	}
	p.Keys = p.list(cached{name, in})
	p.Pages = pagesOf(p.Total)
	if p.Page > p.Pages {
		p.Page, p.Total = p.Pages, 0
		p.Keys = p.list(cached{name, in})
	}
	queue := ps.queueOf(in)
	for i := range p.Keys {
		k := &p.Keys[i]
		if k.Link = informerLink(name, k.Key); queue != "" {
			k.Link = keyLink(queue, k.Key)
		}
	}
	return page{"informer", p}, nil
}

// list returns the keys on the page, and counts all that match. It keeps no more than it returns.
func (p *informerPage) list(s cached) []objectKey {
	keys := []objectKey{}
	from := (p.Page - 1) * keysPerPage
	add := func(key, unread string) {
		if !strings.Contains(key, p.Query) {
			return
		}
		if p.Total++; p.Total > from && len(keys) < keysPerPage {
			keys = append(keys, objectKey{Key: key, Unread: unread})
		}
	}
	unread := make(map[string]bool)
	for k, err := range s.pairs("AllUnread") {
		text := fmt.Sprint(k.Interface())
		unread[text] = true
		add(text, err.Interface().(error).Error())
	}
	for k := range s.all() {
		if text := fmt.Sprint(k.Interface()); !unread[text] {
			add(text, "")
		}
	}
	return keys
}

// PageLink returns the link to a page near this one, or "" if there is no such page.
func (p *informerPage) PageLink(delta int) string {
	if n := p.Page + delta; n >= 1 && n <= p.Pages {
		return cacheLink(p.Informer.Name, p.Query, n)
	}
	return ""
}

// JSONLink returns the link to the page as JSON.
func (p *informerPage) JSONLink() string {
	return cacheLink(p.Informer.Name, p.Query, p.Page) + "&format=json"
}

// Range returns the range of keys on the page, as text.
func (p *informerPage) Range() string { return rangeOf(p.Page, len(p.Keys), p.Total) }

// pageNumber returns the number of the page that a request asks for.
func pageNumber(form url.Values) int {
	number, err := strconv.Atoi(form.Get("page"))
	if err != nil || number < 1 || number > mostPages {
		return 1
	}
	return number
}

// pagesOf returns the number of pages of a list of n keys.
func pagesOf(n int) int { return max(1, (n+keysPerPage-1)/keysPerPage) }

// rangeOf returns the range of the keys on a page, as text.
func rangeOf(number, shown, n int) string {
	if n == 0 {
		return "no keys"
	}
	from := (number-1)*keysPerPage + 1
	return fmt.Sprintf("%s to %s of %s", count(from), count(from+shown-1), count(n))
}

// findLink returns the link to the places that have a key.
func findLink(key string) string { return "find?" + url.Values{"key": {key}}.Encode() }

// linkEvents gives each event the link to its object.
func (ps parts) linkEvents(views []eventView) {
	if len(views) == 0 {
		return
	}
	kinds := ps.kinds()
	for i := range views {
		v := &views[i]
		if s := kinds[v.Kind]; s.value != nil {
			v.Link = ps.objectLink(s, v.Key)
		} else if len(v.Key) <= mostInLink {
			v.Link = findLink(v.Key)
		}
	}
}
