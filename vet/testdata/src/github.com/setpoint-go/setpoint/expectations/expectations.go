// Package expectations has the part of the real package that the tests of the analyzers use.
package expectations

type Config[K comparable] struct{}

type Counted[K comparable] struct{}

func NewCounted[K comparable](cfg Config[K]) *Counted[K] { return nil }

func (c *Counted[K]) ExpectCreations(key K, n int)                      {}
func (c *Counted[K]) ExpectDeletions(key K, n int)                      {}
func (c *Counted[K]) CreationObserved(key K)                            {}
func (c *Counted[K]) DeletionObserved(key K)                            {}
func (c *Counted[K]) LowerExpectations(key K, creations, deletions int) {}

type Tracked[K, ID comparable] struct{}

func NewTracked[K, ID comparable](cfg Config[K]) *Tracked[K, ID] { return nil }

func (t *Tracked[K, ID]) Begin(key K)                      {}
func (t *Tracked[K, ID]) End(key K)                        {}
func (t *Tracked[K, ID]) ExpectCreations(key K, ids ...ID) {}
func (t *Tracked[K, ID]) CreationObserved(key K, id ID)    {}
