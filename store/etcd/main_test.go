package etcd_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

var cycles = flag.Int("cycles", 1, "how often each fault happens")

// atOnce is how many tests and cases run at once, unless -parallel says so: they mostly wait.
const atOnce = "6"

// quick looks for changes sooner than the default.
var quick = etcd.Config{Poll: 50 * time.Millisecond}

// TestMain makes the test binary a server or a writer process if the environment says so.
func TestMain(m *testing.M) {
	if text := os.Getenv(envServer); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(envPrefixWriter); text != "" {
		var w prefixWriter
		err := json.Unmarshal([]byte(text), &w)
		if err == nil {
			err = w.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dbtest.WriterMain(func(ctx context.Context, addrs string) (backend.Backend, error) {
		c, err := dial(addrs) // until the process ends
		if err != nil {
			return nil, err
		}
		return etcd.Open(ctx, c, quick)
	})
	flag.Parse()
	dbtest.LimitParallel(atOnce)
	os.Exit(m.Run())
}

// envServer is the variable that makes the test binary a server. Its value is the member, as JSON.
const envServer = "SETPOINT_ETCD_SERVER"

// serve runs a server until it is asked to stop.
func serve(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	wal.SegmentSizeBytes = 4 << 20 // the disk of a test may be small
	e, err := embed.StartEtcd(m.config())
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	select {
	case <-stop:
		// Close waits for the watches for seconds. Half a second is enough to see how clients take it.
		closed := make(chan struct{})
		go func() { // ends when the server has, at the latest with the process
			e.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(500 * time.Millisecond):
		}
		return nil
	case err := <-e.Err():
		return err
	}
}
