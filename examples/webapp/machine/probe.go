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

// Probe asks a replica whether it is well: GET /healthz has to answer 200 and the replica's ID before the deadline of ctx. A
// nil error says that it did, and ErrUnhealthy that it did not. Any other error says that it could not be asked: ctx was
// canceled, or this process is short of descriptors, memory or ports. Probe changes nothing; see [Machine.ReportHealth].
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
	// A connection per probe, so that a probe tests what the next client would meet. No proxy, no redirects.
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

// couldNotAsk reports whether an error is of this process, which was told to stop or has run out of something.
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
