//go:build !linux && !dragonfly && !openbsd && !solaris && !darwin && !freebsd && !netbsd && !windows

package files

import "io/fs"

// identity returns nothing: here only the size and the time of modification tell two states of a file apart.
func identity(fs.FileInfo) (device, inode uint64, changed int64) { return 0, 0, 0 }
