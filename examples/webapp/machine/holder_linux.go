package machine

import (
	"bytes"
	"fmt"
	"os"
)

// checkHolder returns nil if the process holds the lock of the record at the descriptor where a replica has it. It
// asks the kernel, and does not trust the record.
func checkHolder(pid int, r *record) error {
	proc := fmt.Sprintf("/proc/%d", pid)
	theirs, err := os.Stat(fmt.Sprintf("%s/fd/%d", proc, recordFD))
	if err != nil {
		return err
	}
	ours, err := r.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(ours, theirs) {
		return fmt.Errorf("its descriptor %d is another file", recordFD)
	}
	info, err := os.ReadFile(fmt.Sprintf("%s/fdinfo/%d", proc, recordFD))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(info) { // lock: 1: FLOCK ADVISORY WRITE 7 fe:00:9 0 EOF
		if f := bytes.Fields(line); len(f) > 4 && string(f[0]) == "lock:" && string(f[2]) == "FLOCK" && string(f[4]) == "WRITE" {
			return nil
		}
	}
	return fmt.Errorf("it has the record open without the lock")
}
