package files

import (
	"io/fs"
	"syscall"
)

// identity returns the time at which a file was created, which another file with the same name usually does not have. There is no time of
// change, and to read the number of a file it has to be opened.
func identity(info fs.FileInfo) (device, inode uint64, changed int64) {
	if sys, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return 0, 0, sys.CreationTime.Nanoseconds()
	}
	return 0, 0, 0
}
