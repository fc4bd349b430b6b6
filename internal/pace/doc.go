// Package pace lets a simulation decide when each reconcile of a running controller begins. The simulation puts a function into the
// context of Controller.Run. Right before the reconcile function, each worker calls it with the context of the reconcile. A reconcile
// that makes no call of the simulation has no other place to wait.
//
// # Guarantees
//
//  1. Without the function, a controller looks at the context once in each Run and does nothing else.
package pace
