package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Spec is what Start makes a replica of.
type Spec struct {
	ID       string // 1 to 100 letters, digits, '-', '_' and '.', the first a letter or a digit
	App      string // what the replica is a part of
	Revision string // of what the app wants; kept on record only
	Message  string // what the replica answers
}

// Start starts a replica. It returns when the process exists and is on record; the replica is Starting then. It fails
// with ErrExists when a replica of that ID is alive, and with ErrInvalid when the spec cannot be a replica. After any
// other failure there is neither a process nor a record. ctx is looked at once, at the beginning, and given to
// Config.Permit: its end does not end the replica.
func (m *Machine) Start(ctx context.Context, s Spec) error {
	if err := m.start(ctx, s); err != nil {
		return fmt.Errorf("machine: start %q: %w", s.ID, err)
	}
	m.cfg.Changed() // after our own hold on the record has ended, so that a replica that died at once is seen dead
	return nil
}

func (m *Machine) start(ctx context.Context, s Spec) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !validID(s.ID) {
		return fmt.Errorf("%w: ID is not 1 to 100 of a-z, A-Z, 0-9, '-', '_', '.'", ErrInvalid)
	}
	rec, err := createRecord(m.dir, s, time.Now().UTC())
	if err != nil {
		return err
	}
	defer rec.Close()
	pid, err := m.spawn(ctx, rec, s)
	if err != nil {
		return errors.Join(err, rec.remove())
	}
	// The replica writes its pid too. Ours is there even when the replica hangs before that. When the disk is full we
	// leave it at that: the process is there, is on record, and is not to be started again.
	if _, err := fmt.Fprintf(rec, "{\"pid\":%d}\n", pid); err != nil {
		m.cfg.Logger.Warn("machine: pid not on record", "id", s.ID, "pid", pid, "error", err)
	}
	return nil
}

// spawn starts the process of the record, which inherits it, and has Run look after it.
func (m *Machine) spawn(ctx context.Context, rec *record, s Spec) (int, error) {
	log, err := os.OpenFile(rec.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := m.cfg.Command(s)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
	cmd.ExtraFiles = []*os.File{rec.File} // descriptor 3, the one file beside the streams that the child gets
	cmd.SysProcAttr = newSession()

	if err := m.cfg.Permit(ctx); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Release() // of a handle that we do not need: Run waits by pid, signals go by the record

	m.mu.Lock()
	m.children[pid] = &child{id: s.ID} // it is not reaped yet, so no other process can have the pid
	m.mu.Unlock()
	select {
	case m.started <- struct{}{}:
	default: // Run has not taken the last one yet, and will see both
	}
	return pid, nil
}
