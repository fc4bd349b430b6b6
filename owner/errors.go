package owner

import "errors"

// ErrOwned says that another object controls the child.
var ErrOwned = errors.New("it is controlled by another object")
