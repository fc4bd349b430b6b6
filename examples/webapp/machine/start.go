package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Spec describes a replica for Start.
type Spec struct {
	ID       string // 1 to 100 letters, digits, '-', '_' and '.', the first a letter or a digit
	App      string // the app that the replica belongs to
	Revision string // of the spec of the app; only recorded
	Message  string // the text that the replica serves
}

// Start starts a replica. It returns when the process exists and is on record, and the replica is Starting. It fails
// with ErrExists if a replica with that ID is alive, and with ErrInvalid if the spec cannot be a replica. After any
// other failure there is neither a process nor a record. ctx is checked once, at the beginning, and passed to
// Config.Permit. Its end does not end the replica.
func (m *Machine) Start(ctx context.Context, s Spec) error {
	if err := m.start(ctx, s); err != nil {
		return fmt.Errorf("machine: start %q: %w", s.ID, err)
	}
	m.cfg.Changed() // after our own lock on the record has ended, so that a replica that died at once is seen as dead
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
	// The replica writes its pid too. Ours is there even if the replica hangs before that. If the disk is full, we
	// continue without it: the process exists, is on record, and must not be started again.
	if _, err := fmt.Fprintf(rec, "{\"pid\":%d}\n", pid); err != nil {
		m.cfg.Logger.Warn("machine: pid not on record", "id", s.ID, "pid", pid, "error", err)
	}
	return nil
}

// spawn starts the process of the record, which inherits it, and hands it to Run.
func (m *Machine) spawn(ctx context.Context, rec *record, s Spec) (int, error) {
	log, err := os.OpenFile(rec.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := m.cfg.Command(s)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
	cmd.ExtraFiles = []*os.File{rec.File} // descriptor 3, the only file, besides the streams, that the child gets
	cmd.SysProcAttr = newSession()

	if err := m.cfg.Permit(ctx); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Release() // not needed: Run waits by pid, and signals use the record

	m.mu.Lock()
	m.children[pid] = &child{id: s.ID} // it is not reaped yet, so no other process can have the pid
	m.mu.Unlock()
	select {
	case m.started <- struct{}{}:
	default: // Run has not received the last one yet, and will see both
	}
	return pid, nil
}
