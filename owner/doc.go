// Package owner says which object exists for which other, keeps the children of an owner as they are wanted, and deletes what
// exists for no owner any more.
//
// An object carries references to its owners ([store.OwnerRef]): kind, key and UID. It exists for as long as one of them does. At
// most one of them is the controller: the one that decides about the object. The UID distinguishes an owner from another
// object that was created under the same key after the owner was deleted.
//
// # Usage
//
// Children are the objects of one kind: a store for writes, and its cache for reads. A reconcile says which children an owner
// should have, and Apply creates, updates, and deletes:
//
//	servers := owner.NewChildren(store, cached)
//	...
//	have, err := servers.Apply(ctx, site.Ref(), want) // want is a map from key to value
//
// Apply deletes each child that is not wanted: read [Children.Apply] before you use it. The watch of controller.Owns maps a change
// of a child to its owner, and controller.NewCollector deletes the children whose owners are all gone, by [Children.Collect].
//
// Some children are found by what they are (labels, say), and not under keys that the owner knows. These are claimed:
// [Children.Claim] adopts the orphans that match and releases what matches no longer.
//
// # Something outside of the store
//
// An object may be deleted while no process of the controller runs. The next process finds neither the object nor a memory of it,
// and is never told that it is gone. A [Finalizer] closes this gap: the object stays, being deleted, until Cleanup has succeeded.
// Its Reconcile returns the object for the rest of the work:
//
//	site, live, err := dns.Reconcile(ctx, sites, key)
//	if err != nil || !live {
//		return controller.Result{}, err // again after a backoff, or when the error says: retry.NotYet; or there is no site
//	}
//
// # Deletion
//
// [Delete] says what becomes of the children of an owner:
//
//	policy         the owner                      its children                       carried out by
//	[Background]   goes at once                   go after it                        [Children.Collect] for each kind of children
//	[Foreground]   stays until they are gone      go first                           [Cascade], when the owner is reconciled
//	[Orphan]       stays until all are released   stay, and have this owner no more  [Cascade], when the owner is reconciled
//
// A child with several owners goes with the last of them. With Foreground, such a child is released instead of deleted. There is no
// field like blockOwnerDeletion of Kubernetes: with Foreground, an owner waits for the children that it controls, and for no others.
//
// A child may have children of its own: the policy among its own finalizers decides about them. So in a tree that has to
// go from its leaves, each object has Foreground from its creation.
//
// A reconcile must not create children for an owner that is being deleted, which is one that has a time in Deleting. A child that
// comes too late for a Cascade is left to Collect.
//
// Things of several kinds that belong together, and that one deletion has to remove, hang off a root: an object that is empty and
// exists for nothing else. It is created first, so that what was created before a crash hangs off it already. Deleted with
// Foreground, it goes last, so that its key is not used again while something is left. See the example.
//
// # Guarantees
//
//  1. SetController never takes an object away from another controller, nor from an earlier life of the same one.
//  2. Children.Apply changes only children that its owner controls, and of these only the value: not the status, the labels, the
//     owners, or the finalizers. The store checks this with each write, so a stale cache does no harm. Without an error, and with
//     a cache that is up to date, the children that are not being deleted are those that are wanted.
//  3. Apply may stop anywhere, and an answer may be lost: the next call goes on from there.
//  4. Children.Collect deletes a child only if reads that began after the read of the child found all its owners gone, and only in
//     the very state that it read: if anybody has changed the child since, the deletion is a conflict.
//  5. Collect never deletes a child that has no owners. It leaves a child alone if one of its owners could not be read.
//  6. A key that is used again does not keep the children of its former owner alive, nor does their deletion touch those of the
//     new one.
//  7. Children.Claim adopts and releases only after a fresh read found the owner alive and not being deleted, one read for all, and
//     never touches what another owner controls.
//  8. Once the Apply of a Finalizer has begun for an object, its Cleanup has succeeded before the object is gone.
//  9. An owner that a Cascade lets go controls no child that was there when its deletion began, and that the Cascade looks at. With
//     Foreground, all are gone, except those that have other owners and were released. With Orphan, all are there, and none
//     refers to the owner, unless others have changed them. This holds wherever the process stops in between, once
//     the call is repeated.
//
// Each write carries the fence of its context, so a former leader is refused: see store.WithFence.
//
// In the background, a child is not deleted together with its owner but after it, when the key of the child is collected. A child
// that is created for an owner which is already gone is collected likewise. So a lost event or a crash leaves no orphan for
// longer than it takes to look at every child once.
//
// # Testing
//
// Nothing here has a goroutine or a timer. With a store.Memory, each call can be tested by itself. To test with a stale cache,
// drive the informer with informer.Steps.
//
// Some tests of this package are there to be read. A controller that creates and deletes replicas by a cache that lags behind is in
// replicas_test.go, how to wait for one's own writes in ownwrites_test.go, and what real controllers have done wrong, in both
// forms, in classic_test.go.
package owner
