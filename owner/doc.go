// Package owner says which object exists for which other, and removes what exists for nobody any more.
//
// An object carries references to its owners (store.OwnerRef): kind, key and UID. It exists for as long as one of them does.
// At most one of them is the controller: the one that decides about the object. UIDs make the difference between an owner
// and another object that was created under the same key after the owner was deleted.
//
// # Usage
//
// Who creates a child says whose it is:
//
//	child := store.Object[Replica]{Key: "web-1"}
//	err := owner.SetController(&child, app.Ref("app"))
//
// A watch of children turns them into keys of owners with [ControlledBy]. An index by [ControllerUID] finds the children
// that an owner decides about. A [Collector] deletes the children whose owners are all gone, one key at a time. That is
// the work of a reconcile loop over the children, triggered by children and by deletions of owners, whose children are
// found by an index by [OwnerUIDs]:
//
//	c := owner.NewCollector(replicas, owner.AliveIn(apps))
//	deleted, err := c.Collect(ctx, key)
//
// Children that are found by what they are (labels, say), not made under names that the owner knows, are claimed:
// [Children.Claim] adopts the orphans that match and releases what matches no longer.
//
// # Something outside of the store
//
// An object may be deleted while no process of the controller runs. The next process finds neither the object nor a
// memory of it, and is never told that it is gone. A [Finalizer] closes this gap: the object stays, being deleted, until
// Cleanup has succeeded. Its Reconcile returns the object for the rest of the work:
//
//	app, live, err := dns.Reconcile(ctx, apps, key)
//	if err != nil || !live {
//		return controller.Result{}, err // again after a backoff, or after the delay of retry.After; or there is no app
//	}
//
// # Deletion
//
// [Delete] says what becomes of the children of an owner:
//
//	policy         the owner                      its children                       carried out by
//	[Background]   goes at once                   go after it                        a [Collector] of each kind of children
//	[Foreground]   stays until they are gone      go first                           a [Cascade] of the owners
//	[Orphan]       stays until all are released   stay, and have this owner no more  a [Cascade] of the owners
//
// A child with several owners goes with the last of them. With Foreground, such a child is released instead of deleted.
// There is no field like blockOwnerDeletion of Kubernetes: with Foreground, an owner waits for the children that it
// controls, and for no others.
//
// A child may have children of its own: the policy that stands among its own finalizers decides about them. So a tree that
// has to go from its leaves has [Foreground] in each object from its creation.
//
// Whoever creates children must not do so for an owner that is being deleted, which is one that has a time in Deleting. A
// child that comes too late for a Cascade is left to the Collector.
//
// Things of several kinds that belong together, and that one deletion has to remove, hang off a root: an object that is
// empty and exists for nothing else. It is created first, so that what was created before a crash hangs off it already; and
// deleted with Foreground it goes last, so that its key is not used again while something is left. See the example.
//
// # Guarantees
//
//  1. [SetController] never takes an object away from another controller, nor from an earlier life of the same one.
//  2. A [Collector] deletes a child only if reads that began after the read of the child found all its owners gone, and
//     only in the very state that it read: if anybody has changed the child since, the deletion is a conflict.
//  3. It never deletes a child that has no owners. It leaves a child alone if one of its owners could not be asked for.
//  4. A key that is used again does not keep the children of its former owner alive, nor does their deletion touch those
//     of the new one.
//  5. [Children.Claim] adopts only after a fresh read found the owner alive and not being deleted, one read for all, and
//     never touches what another owner controls.
//  6. Once the Apply of a [Finalizer] has begun for an object, its Cleanup has succeeded before the object is gone.
//  7. An owner that a [Cascade] lets go controls no child that was there when its deletion began, and that the Cascade
//     looks at. With [Foreground], all are gone, but for those that have other owners and were released. With [Orphan], all
//     are there, and none refers to the owner, but for what somebody else has done to them. This holds wherever the process
//     stops in between, once the call is repeated.
//
// What it does not do: in the background a child is not deleted together with its owner but after it, when the key of the
// child is collected. A child that is created for an owner which is already gone is collected likewise, so that a lost event
// or a crash leaves no orphan for longer than it takes to look at every child once.
//
// # Testing
//
// Nothing here has a goroutine, a clock or a cache: with a store.Memory, each call can be tested by itself.
//
// Some tests of this package are there to be read. A controller that creates and deletes replicas by a cache that lags
// behind is in replicas_test.go, how to wait for one's own writes in ownwrites_test.go, and what real controllers have done
// wrong, in both forms, in classic_test.go.
package owner
