package controller

// laterKey is a key for the next Run.
type laterKey[K comparable] struct {
	key  K
	opts AddOptions
}

// divert makes leave take keys: a Run drains, and what is added from now on shall not keep it from ending.
func (h *holds[K]) divert() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = make(map[K]int)
	h.diverting.Store(true)
}

// leave leaves a key to the next Run. It returns false if no Run drains.
func (h *holds[K]) leave(key K, opts AddOptions) bool {
	if !h.diverting.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.diverting.Load() { // it has ended since
		return false
	}
	if i, ok := h.places[key]; ok {
		known := &h.later[i].opts
		known.Priority = max(known.Priority, opts.Priority)
		if opts.Reason != "" {
			known.Reason = opts.Reason
		}
		return true
	}
	h.places[key] = len(h.later)
	h.later = append(h.later, laterKey[K]{key, opts})
	h.countLocked(+1)
	return true
}

// undivert returns the keys that were left to the next Run, in the order in which they came. They are held until they are
// released. From now on leave takes none.
func (h *holds[K]) undivert() []laterKey[K] {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := h.later
	h.later, h.places = nil, nil
	h.diverting.Store(false)
	return keys
}
