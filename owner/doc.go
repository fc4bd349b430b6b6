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
// A child with several owners goes with the last of them. With Foreground, such a child is released instead of deleted. Unlike in
// Kubernetes, there is no blockOwnerDeletion: with Foreground, an owner waits exactly for the children that it controls.
//
// A child may have children of its own: the policy among its own finalizers decides about them. To delete a tree from its leaves,
// create each object with Foreground.
//
// A reconcile must not create children for an owner that is being deleted, which is one that has a time in Deleting. A child that
// comes too late for a Cascade is left to Collect.
//
// Nor must it create children for an owner that is gone, although its cache may still show the owner. Collect would delete them, and
// the deletion would bring the reconcile back, for as long as the cache lags. So read the owner from the store, as
// [Finalizer.Reconcile] and [Cascade] do.
//
// Things of several kinds that belong together, and that one deletion has to remove, hang off a root: an object that is empty and
// exists for nothing else. It is created first, so that what was created before a crash hangs off it already. Deleted with
// Foreground, it goes last, so that its key is not used again while something is left. See the example.
//
// # Guarantees
//
//  1. SetController never takes an object away from another controller, nor from an earlier life of the same one.
//  2. Children.Apply changes only children that its owner controls, and of these only the value: not the status, the labels, the
//     owners, or the finalizers. The store checks this with each write, so a stale cache does no harm. If the cache is up to date
//     and Apply returns no error, the wanted children exist, and the others are deleted or being deleted.
//  3. Apply may be interrupted anywhere, and a reply may be lost: the next call continues from there.
//  4. Children.Collect reads a child, then all its owners. It deletes the child only if all owners are gone. If the child has
//     changed since it was read, the deletion is a conflict.
//  5. Collect never deletes a child without owners. If one of the owners cannot be read, it does not change the child.
//  6. An owner that is created under a key of a former owner does not keep the children of the former one. The deletion of those
//     does not affect the children of the new one.
//  7. Children.Claim adopts and releases only after one fresh read that found the owner alive and not being deleted. It never
//     changes an object that another owner controls.
//  8. Once a Finalizer has called Apply for an object, its Cleanup succeeds before the object is gone.
//  9. When a Cascade lets an owner go, the owner controls none of the children that were there when its deletion began and that
//     the Cascade looks at. With Foreground, they are gone, or were released to other owners. With Orphan, they are there without
//     a reference to the owner. If the process stops in between, repeating the call is enough.
//
// Each write carries the fence of its context, so a former leader is refused: see store.WithFence.
//
// With Background, a child is deleted when its key is collected, some time after its owner. The same happens to a child that is
// created after its owner is gone. So after a lost event or a crash, one pass over all children finds every orphan.
//
// # Testing
//
// Nothing here has a goroutine or a timer. With a store.Memory, each call can be tested by itself. To test with a stale cache,
// drive the informer with informer.Steps. Three test files are worth reading: replicas_test.go (a controller on a stale cache),
// ownwrites_test.go (waiting for own writes), and classic_test.go (mistakes of real controllers, and their fixes).
package owner
