// Package owner records which object exists for which other, keeps the children of an owner as wanted, and deletes objects whose owners are
// gone.
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
// Apply deletes each child that is not wanted: read [Children.Apply] before you use it. controller.Owns maps a change to a child to its
// owner, and controller.NewCollector deletes the children whose owners are all gone, by [Children.Collect].
//
// Some children are found by their properties, such as labels, and not under keys that the owner knows. Use [Children.Claim] for these: it
// adopts the orphans that match and releases the children that no longer match.
//
// Create no children for an owner that is gone or being deleted. The cache may still show it, so read it from the store, as
// [Finalizer.Reconcile] and [Cascade] do.
//
// [Delete] deletes an owner, and its [Policy] determines what happens to the children.
//
// # Something outside the store
//
// An object may be deleted while no process of the controller runs. The next process finds no trace of the object, and never learns that it
// is gone. A [Finalizer] closes this gap: the object stays, being deleted, until Cleanup has succeeded. Its Reconcile returns the object
// for the rest of the work:
//
//	site, live, err := dns.Reconcile(ctx, sites, key)
//	if err != nil || !live {
//		return controller.Result{}, err // err: retried after a backoff, or at the time of a retry.NotYet; !live: there is no site
//	}
//
// # Guarantees
//
//  1. SetController never takes an object from another controller, nor from an earlier life of the same one.
//  2. Children.Apply changes only children that its owner controls, and of these only the value: not the status, the labels, the
//     owners, or the finalizers. The store checks this with each write, so a stale cache does no harm. If the cache is up to date
//     and Apply returns no error, the wanted children exist, and the others are deleted or being deleted.
//  3. Apply may be interrupted anywhere, and a reply may be lost: the next call continues from there.
//  4. Children.Collect reads a child, then all its owners. It deletes the child only if all owners are gone. If the child has
//     changed since it was read, the deletion is a conflict.
//  5. Collect never deletes a child without owners. If one of the owners cannot be read, it does not change the child. A child whose owner
//     the cache of [Watched] does not show is collected again, so no orphan stays even if that cache never shows the owner.
//  6. An owner that is created under a key of a former owner does not keep the children of the former one. The deletion of those
//     does not affect the children of the new one.
//  7. Children.Claim adopts and releases only after one fresh read that found the owner alive and not being deleted. It never
//     changes an object that another owner controls.
//  8. Once a Finalizer has called Apply for an object, its Cleanup succeeds before the object is gone.
//  9. When a Cascade lets an owner go, the owner controls none of the children that existed when its deletion began. That holds
//     for the kinds that the Cascade looks at. With Foreground, they are gone, or were released to other owners. With Orphan,
//     they are there without a reference to the owner. If the process stops in between, repeating the call is enough.
//
// Each write carries the fence of its context, so the writes of a former leader are rejected: see store.WithFence.
//
// # Testing
//
// This package has no goroutines and no timers. With a store.Memory, each call can be tested by itself. To test with a stale cache, drive
// the informer with informer.Steps. The file ownwrites_test.go shows how a key waits for a cache that has its own writes, and simtest/classics has mistakes
// of real controllers, and their fixes.
package owner
