//go:build linux

package servertest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wallClock replaces the function of the vDSO with which a process reads its clocks. Go programs read clocks there, so libfaketime, which
// replaces functions of the C library, has no effect on them. The replacement asks the kernel, and adds a number of seconds to the wall
// clock. It leaves other clocks alone:
//
//	mov eax, 228 (clock_gettime); syscall; test edi, edi (CLOCK_REALTIME); jne end; mov rcx, [rip+6]; add [rsi], rcx; end: ret
var wallClock = []byte{
	0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 10, 0x48, 0x8b, 0x0d, 6, 0, 0, 0, 0x48, 0x01, 0x0e, 0xc3, 0, 0,
}

// OwnClock gives the process of a command a wall clock that [Server.SetClock] changes. If that is not possible on this architecture, the
// test is skipped.
func OwnClock(t testing.TB, c *exec.Cmd) *exec.Cmd {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process can be changed only on amd64")
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	attr := *c.SysProcAttr
	attr.Ptrace = true // stops it before its first instruction
	c.SysProcAttr = &attr
	return c
}

// SetClock makes the wall clock of the server wrong by some seconds from now on, even after a restart. The command of the server must be an
// [OwnClock].
func (s *Server) SetClock(wrong time.Duration) {
	s.t.Helper()
	s.wrong = wrong
	must(s.t, s.writeClock())
}

// startStopped starts a command of OwnClock, gives it its clock, and resumes it.
func (s *Server) startStopped(c *exec.Cmd) (err error) {
	runtime.LockOSThread() // a process is traced by one thread
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("servertest: the process has not stopped: %v", status)
	}
	defer func() { err = errors.Join(err, syscall.PtraceDetach(c.Process.Pid)) }()
	offset, err := clockOffset()
	if err != nil {
		return err
	}
	base, err := vdsoOf(c.Process.Pid)
	if err != nil {
		return err
	}
	s.clockAt = base + offset + int64(len(wallClock))
	s.running = c
	if err := writeMemory(c.Process.Pid, base+offset, wallClock); err != nil {
		return err
	}
	return s.writeClock()
}

func (s *Server) writeClock() error {
	return writeMemory(s.running.Process.Pid, s.clockAt, binary.LittleEndian.AppendUint64(nil, uint64(int64(s.wrong/time.Second))))
}

// clockOffset returns where the function begins in the vDSO, which is the same in all processes.
func clockOffset() (int64, error) {
	base, err := vdsoOf(os.Getpid())
	if err != nil {
		return 0, err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, err
	}
	defer func() { _ = mem.Close() }()
	image := make([]byte, 64<<10) // larger than the vDSO
	n, err := io.NewSectionReader(mem, base, int64(len(image))).Read(image)
	if n == 0 {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image[:n]))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" && symbol.Size >= uint64(len(wallClock)+8) && symbol.Value%8 == 0 {
			return int64(symbol.Value), nil
		}
	}
	return 0, errors.New("servertest: the vDSO has no clock_gettime that can be replaced")
}

// vdsoOf returns where the vDSO of a process begins.
func vdsoOf(pid int) (int64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var begin int64
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-", &begin)
			return begin, err
		}
	}
	return 0, errors.New("servertest: the process has no vDSO")
}

// writeMemory writes into the memory of a process, whether it is writable to the process or not.
func writeMemory(pid int, at int64, data []byte) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = mem.WriteAt(data, at)
	return errors.Join(err, mem.Close())
}
