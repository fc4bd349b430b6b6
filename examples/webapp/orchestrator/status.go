package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/store"
)

const (
	leaseKey  = "webapp"
	statusURL = "status" // the metadata key of the lease for the address of the status page
)

// WriteStatus writes a table of the apps and one of the replicas.
func (o *Orchestrator) WriteStatus(ctx context.Context, w io.Writer) error {
	apps, err := o.apps.List(ctx)
	if err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "APP\tPHASE\tREADY\tADDRESS\tPROBLEM")
	for _, app := range apps.Items {
		spec, status := app.Value.Spec, app.Value.Status
		address := cmp.Or(status.Address, "-")
		fmt.Fprintf(tab, "%s\t%s\t%d/%d\t%s\t%s\n", app.Key, cmp.Or(status.Phase, Pending), status.Ready, spec.Replicas, address, status.Problem)
	}
	fmt.Fprintln(tab, "\t\t\t\t\nREPLICA\tSTATE\tPROCESS\tADDRESS\tAGE")
	var replicas []machine.Replica
	for _, r := range o.replicas.Indexer().All() {
		replicas = append(replicas, r)
	}
	slices.SortFunc(replicas, func(a, b machine.Replica) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range replicas {
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\n", r.ID, r.State, r.PID, cmp.Or(r.Addr(), "-"), time.Since(r.Created).Round(time.Second))
	}
	return tab.Flush()
}

// serveStatus serves the tables until ctx ends, as long as this copy leads.
func (o *Orchestrator) serveStatus(ctx context.Context) error {
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != o.page || !o.manager.Elector().IsLeader() {
				http.Error(w, "this copy does not lead", http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = o.WriteStatus(r.Context(), w) // a client that is gone needs no error
		}),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(o.status); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("webapp: serve the status page: %w", err)
	}
	return nil
}

// announce records an event that names the leader.
func (o *Orchestrator) announce(l leaderelect.Leader) {
	o.events.Normal(store.Ref{Kind: "Lease", Key: leaseKey}, "Leader", fmt.Sprintf("%s leads, term %d, status at %s", l.Identity, l.Term, l.Metadata[statusURL]))
}

// printStatus prints the tables of the leader. It makes no directory.
func printStatus(ctx context.Context, cfg Config) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if cfg.Database != nil {
		leases, err := leasesIn(cfg.Database)
		if err != nil {
			return err
		}
		return askLeader(ctx, cfg.Out, leases)
	}
	if cfg.State, err = stateDir(cfg.State, cfg.Manifests); err != nil {
		return err
	}
	if _, err := os.Stat(leaseDir(cfg.State)); err != nil {
		return fmt.Errorf("webapp: no copy leads: no copy of the program runs with the state directory %s: %w", cfg.State, err)
	}
	files, err := filelease.New(leaseDir(cfg.State))
	if err != nil {
		return err
	}
	return askLeader(ctx, cfg.Out, files)
}

// askLeader writes the tables of the leader. It fails if there is no leader. The lease alone is not enough, because it
// outlives a leader that was killed.
func askLeader(ctx context.Context, w io.Writer, leases leaderelect.LeaseStore) error {
	leader, err := leaderelect.Holder(ctx, leases, leaseKey)
	if errors.Is(err, leaderelect.ErrNotFound) {
		return errors.New("webapp: no copy leads: the lease is free")
	}
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, leader.Metadata[statusURL], nil)
	if err != nil {
		return fmt.Errorf("webapp: the lease of %s has no good address: %w", leader.Identity, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("webapp: no copy leads: %s, who led last, does not answer: %w", leader.Identity, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("webapp: no copy leads: %s led last, and has lost the lease", leader.Identity)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}
