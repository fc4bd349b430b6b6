// Package owners is chapter 6 of "Effective controllers": docs/effective/06-owners.md. A cluster has a volume with its data. The wrong
// controller finds the volume by its name. The right one finds it by the UID of the cluster that it belongs to. In a second
// program, two controllers write the size of a pool, and undo each other's writes. The right program has one controller for it.
package owners

// Cluster is what the user wants.
type Cluster struct{ Size int }

// Volume is made by the controller for a cluster, under the same key.
type Volume struct {
	Size int
	Data string `store:"status"` // written by the database
}

// Cleanup is the finalizer of a cluster whose volume is not deleted yet.
const Cleanup = "example.com/volume"
