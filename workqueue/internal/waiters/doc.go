// Package waiters is the line of the workers that wait for a key.
//
// # Usage
//
// The lock of the queue guards the list. Signals are sent and received without it:
//
//	w := list.Add()      // a worker, with the lock, when it has found nothing
//	<-w.Signal           // without the lock
//	list.Reuse(w)        // with the lock again
//
//	w := list.Next()     // a producer, with the lock, after it has added something
//	w.Wake()             // without the lock
//
// # Guarantees
//
//  1. Workers leave the list in the order in which they came, unless they leave by themselves.
//  2. A waiter gets one signal for each time that Next or Clear removes it from the list, and no other.
//  3. Wake never blocks.
//  4. A signal means that the worker should look again. It does not give the worker a key: a worker that is already awake may take the key
//     first, which is cheaper than handing it over.
package waiters
