package files

import (
	"io/fs"
	"time"
)

// stamp tells two states of a file apart without reading it.
type stamp struct {
	device, inode           uint64
	size, modified, changed int64 // bytes; the times in nanoseconds since 1970
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	s.device, s.inode, s.changed = identity(info)
	return s
}

// isYoung reports whether, by the clock of this machine, the file may have changed during the last few seconds. A time in the future says that
// the clocks differ.
func (s stamp) isYoung(now time.Time) bool {
	return now.UnixNano()-max(s.modified, s.changed) < int64(coarse)
}

// coarse is the resolution of times on file systems such as FAT, and fine that of all others.
const (
	coarse = 2 * time.Second
	fine   = 20 * time.Millisecond
)

// resolution returns for how long a file may be written again without another stamp.
func (s stamp) resolution() time.Duration {
	if s.modified%int64(time.Second) == 0 && s.changed%int64(time.Second) == 0 {
		return coarse
	}
	return fine
}
