package controller

// Pause makes c begin no reconciles until [Controller.Resume]. Those in flight go on. What is added meanwhile waits, and
// so does what is to be drained when a Run ends: it is left to the next. A controller stays paused from one Run to the next.
// Watches go on, and so does everything that waits for a time.
func (c *Controller[K]) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	if c.crew != nil {
		c.crew.resizeLocked(0)
	}
	if c.stopDrain != nil {
		c.stopDrain()
	}
}

// Resume ends a [Controller.Pause].
func (c *Controller[K]) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	if c.crew != nil {
		c.crew.resizeLocked(c.workers)
	}
}

// SetWorkers changes the number of keys that are reconciled at once, for this Run and those that follow. When there are
// too many workers, some end when they have done what they do. SetWorkers panics if n is not positive: see
// [Controller.Pause].
func (c *Controller[K]) SetWorkers(n int) {
	if n <= 0 {
		panic("controller: SetWorkers called with a number that is not positive")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = n
	if c.crew != nil && !c.paused {
		c.crew.resizeLocked(n)
	}
}

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. One that is in flight goes on. If the key is
// added meanwhile it is held, until then.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	h := &c.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == nil {
		h.paused = make(map[K]bool)
	}
	if _, ok := h.paused[key]; !ok {
		h.paused[key] = false
	}
	h.pausing.Store(true)
}

// ResumeKey ends a [Controller.PauseKey]. The key is reconciled if it was added meanwhile.
func (c *Controller[K]) ResumeKey(key K) {
	if c.holds.unpause(key) {
		c.add(key, AddOptions{}, false)
		c.holds.release(1)
	}
}

// holdPaused holds key if it is paused.
func (h *holds[K]) holdPaused(key K) bool {
	if !h.pausing.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	held, paused := h.paused[key]
	if paused && !held {
		h.paused[key] = true
		h.countLocked(+1)
	}
	return paused
}

// unpause ends the pause of key. It returns true if the key was held: then the caller adds and releases it.
func (h *holds[K]) unpause(key K) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.paused[key]
	delete(h.paused, key)
	h.pausing.Store(len(h.paused) > 0)
	return held
}
