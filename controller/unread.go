package controller

import (
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// unreadKeys hold the keys of a [For] whose objects exist, and whose current states the cache lacks: see [informer.Informer.Unread]. They are
// Expectations that do not expire. An informer does not say which keys have become readable, so pending asks again for all that it holds.
type unreadKeys[K comparable] struct {
	name       string // of the informer
	err        func(key K) error
	onReadable func(func()) (stop func()) // calls the function when some keys have become readable
}

// Expires implements [Expectations].
func (u *unreadKeys[K]) Expires(key K) (until time.Time, waiting bool) {
	return until, u.err(key) != nil
}

// Notify implements [Expectations]. See watch.
func (u *unreadKeys[K]) Notify(func(key K)) (stop func()) { return func() {} }

// watchUnread releases the keys that have become readable, until stop is called.
func (p *pending[K]) watchUnread() (stop func()) {
	var stops []func()
	for on, e := range p.expected {
		if u, ok := e.Expectations.(*unreadKeys[K]); ok {
			stops = append(stops, u.onReadable(func() { p.releaseMet(on) }))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// followUnread calls add with the keys of the objects of inf that are unread, and of those that become so, until stop has returned.
func followUnread[K comparable, T any](inf *informer.Informer[K, T], add func(K)) (stop func()) {
	var mu sync.Mutex // a call may be in progress when stop is called
	stopped := false
	addUnlessStopped := func(key K) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			add(key)
		}
	}
	end := inf.OnUnread(addUnlessStopped)
	for key := range inf.AllUnread() {
		addUnlessStopped(key)
	}
	return func() {
		end()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// isUnread reports whether key may be held by unreadKeys.
func (p *pending[K]) isUnread(key K) bool {
	for _, u := range p.unread {
		if u.err(key) != nil {
			return true
		}
	}
	return false
}

// unreadOf returns the unreadKeys of the feeds, each informer once.
func unreadOf[K comparable](feeds []*feed[K]) (all []*unreadKeys[K]) {
	seen := make(map[Informer]bool)
	for _, f := range feeds {
		if f.unread != nil && !seen[f.informer] {
			seen[f.informer] = true
			all = append(all, f.unread)
		}
	}
	return all
}
