package workqueue

import "errors"

// ErrShutDown says that the queue was shut down: [Queue.Next] has nothing left to hand out, or [Queue.Drain] was
// released by a call of [Queue.ShutDown] before everything was done.
var ErrShutDown = errors.New("workqueue: the queue is shut down")
