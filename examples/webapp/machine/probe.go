package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// Probe checks the health of a replica: GET /healthz must return 200 and the replica's ID before the deadline of ctx. The
// error is nil if it did, and ErrUnhealthy if it did not. Any other error means that the probe could not be made: ctx was
// canceled, or this process is short of descriptors, memory, or ports. Probe changes nothing; see [Machine.ReportHealth].
func (m *Machine) Probe(ctx context.Context, r Replica) error {
	if err := probe(ctx, r); err != nil {
		return fmt.Errorf("machine: probe %q: %w", r.ID, err)
	}
	return nil
}

func probe(ctx context.Context, r Replica) error {
	if r.Port == 0 {
		return fmt.Errorf("%w: it does not listen yet", ErrUnhealthy)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+"/healthz", nil)
	if err != nil {
		return err
	}
	// A connection per probe, so that a probe tests what the next client would see. No proxy, no redirects.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if couldNotAsk(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnhealthy, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", ErrUnhealthy, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 256))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnhealthy, err)
	}
	if id := strings.TrimSpace(string(body)); id != r.ID {
		return fmt.Errorf("%w: %q answers in its place", ErrUnhealthy, id)
	}
	return nil
}

// couldNotAsk reports whether the cause of an error is this process, which was told to stop or is short of a resource.
func couldNotAsk(err error) bool {
	for _, ours := range []error{
		context.Canceled, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
	} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}
