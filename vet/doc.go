// Package vet finds mistakes of reconcilers in the source. Its analyzers know the controllers of this library and those of
// controller-runtime. They look for what package simtest and incidents have found, and name the chapter of Effective controllers
// (docs/effective) that explains it.
//
// # Usage
//
// The command setpointvet has all analyzers. Run it by itself, or let the go command run it, which keeps the results of packages that have
// not changed:
//
//	go run github.com/setpoint-go/setpoint/vet/cmd/setpointvet@latest ./...
//
//	go install github.com/setpoint-go/setpoint/vet/cmd/setpointvet@latest
//	go vet -vettool=$(which setpointvet) ./...
//
// Package golangci is a module plugin of golangci-lint. A program with analyzers of its own adds [Analyzers] to them.
//
// # Analyzers
//
//	leadercontext   context.Background, TODO, or WithoutCancel handed to a call: it goes on without its fence, its deadline, and the stop
//	cachewrite      a write to an object of an informer, an index, a lister, or an argument of a handler, also in a helper: every reader
//	                sees it, and the next comparison finds no change
//	swallowed       an error that is logged or dropped while nil is returned: no retry follows, and the key waits for its next event
//	blocking        a sleep, a wait, or a request without the context: the worker does nothing else, and a stop waits for it;
//	                I/O in a handler, or in a function of Where or When: nothing tries it again
//	sharedstate     a variable that reconciles write without a lock, if there can be several workers: a data race, and a restart loses it
//	unguarded       a write by database/sql or pgx outside Guard or Transact, if the package has an election: a former leader still writes
//	resultanderror  a delay beside an error, which is ignored; a reconcile whose every success requests the next at once: a loop
//	keytype         a key with a pointer, an interface, a float, a time, or a verb such as "delete": one object has two keys
//	expectation     an expectation after the write, or not lowered after its failure: the reconcile waits for its TTL
//	finalizer       a cleanup when the cache has no object, if nothing but events of the cache wakes the controller: a deletion while the
//	                process is down is never seen
//	nowdecides      a deletion that is due at a time, without a requeue at that time: it happens at the next event, if there is one
//
// A function is a reconcile if [controller.New] or Queue.Run gets it, or if it has the shape func(context.Context, K) (Result, error). What
// it calls belongs to it: literals, and functions of the module under analysis, in any package. What it starts with go does not. A call of
// a method of an interface is followed if the package and its imports have one type in the module that implements it. A call of a function
// value is followed if its variable or field gets one value in the package, or if it is an argument.
//
// # Guarantees
//
//  1. A finding says what will happen, in one sentence, and names a chapter.
//  2. A missed mistake is better than a false alarm: what an analyzer does not know, it takes for right. So silence proves nothing.
//  3. Test files and generated files have no findings: tests do such things on purpose.
//  4. A mistake in a function of another package is reported at the first call of a package, with the place of the mistake.
//  5. No finding has a fix that the tool applies. Each of these mistakes has several remedies.
//
// # Suppress a finding
//
// A comment suppresses the findings of one or more analyzers on its own line and on the next one. Without a reason, it suppresses nothing:
//
//	//setpoint:ignore swallowed -- the lease expires anyway
//	_, _ = leases.Delete(ctx, key)
//
// A comment at a mistake also suppresses what callers in other packages would be told about it.
//
// [controller.New]: https://pkg.go.dev/github.com/setpoint-go/setpoint/controller#New
package vet
