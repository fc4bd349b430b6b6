package controller

// Parked returns the keys whose retry budget is spent, the longest parked first. They wait for somebody to add them, for
// [Controller.RetryParked] or [Controller.DropParked]. [Controller.Snapshot] tells why they failed.
func (c *Controller[K]) Parked() []K { return c.queue.Parked() }

// RetryParked makes a key that is parked be reconciled, with a whole budget. It reports whether the key was parked.
func (c *Controller[K]) RetryParked(key K) bool { return c.queue.RetryParked(key) }

// DropParked forgets a key that is parked. It reports whether the key was parked.
func (c *Controller[K]) DropParked(key K) bool { return c.queue.DropParked(key) }
