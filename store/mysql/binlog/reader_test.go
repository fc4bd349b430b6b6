//go:build linux

package binlog_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
)

const readerProcess = "SETPOINT_BINLOG_READER" // its arguments are the address and the database

// readerMain makes this process a reader, which prints what its handler sees, and does not return, if its environment asks for it.
func readerMain() {
	if os.Getenv(readerProcess) == "" {
		return
	}
	err := func() error {
		ctx := context.Background()
		dsn := tabletest.DSN("root", os.Args[1], os.Args[2], "")
		db, err := tabletest.OpenPool(dsn)
		if err != nil {
			return err
		}
		table, err := binlog.NewTable(ctx, db, tabletest.ScanSite, binlog.TableConfig{Table: "sites", DSN: dsn})
		if err != nil {
			return err
		}
		inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(error) {}})
		if err != nil {
			return err
		}
		_, err = inf.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(s site, _ bool) { fmt.Println("put", s.Name, s.Rev) },
			OnUpdate: func(_, s site) { fmt.Println("put", s.Name, s.Rev) },
			OnDelete: func(s cache.Tombstone[string, site]) { fmt.Println("delete", s.Key, 0) },
		})
		if err != nil {
			return err
		}
		return inf.Run(ctx)
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// seen is what a reader process has printed.
type seen struct {
	mu sync.Mutex
	// mu guards the following.
	rows map[string]site
}

// startReader starts a reader process.
func startReader(t testing.TB, addr, database string) (*dbtest.Program, *seen) {
	t.Helper()
	p := dbtest.StartProgram(t, dbtest.NewProgram(readerProcess, addr, database))
	s := &seen{rows: map[string]site{}}
	go func() { // ends with the process
		for line := range p.Lines {
			var what string
			var row site
			if n, _ := fmt.Sscan(line, &what, &row.Name, &row.Rev); n != 3 {
				continue // it was killed
			}
			s.mu.Lock()
			if what == "put" {
				s.rows[row.Name] = row
			} else {
				delete(s.rows, row.Name)
			}
			s.mu.Unlock()
		}
	}()
	return p, s
}

// A reader process is killed, or stopped for longer than the server waits for it, while writers write.
func TestReaderMatchesTableWhenKilledOrStopped(t *testing.T) {
	t.Parallel()
	server := newServer(t, "net-write-timeout=1", "slave-net-timeout=1")
	db := newSites(t, server)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var pause sync.RWMutex // held by a writer that writes
	writer := looptest.StartIn(writing, t, func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			pause.RLock()
			tabletest.Do(t, db, tabletest.PutSite, fmt.Sprint(rand.IntN(50), strings.Repeat("x", rand.IntN(3))), n)
			tabletest.Do(t, db, "DELETE FROM sites WHERE name = ?", fmt.Sprint(rand.IntN(50), strings.Repeat("x", rand.IntN(3))))
			pause.RUnlock()
		}
		return nil
	})
	p, s := startReader(t, server.Addr(), name)
	for n := range 2 * *cycles {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		if n%2 == 0 {
			require.NoError(t, p.Process.Kill())
			_ = p.Wait() // says that it was killed
			p, s = startReader(t, server.Addr(), name)
		} else {
			require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
			time.Sleep(1500 * time.Millisecond)
			require.NoError(t, p.Process.Signal(syscall.SIGCONT))
		}
		pause.Lock()
		want := tabletest.RowsOf(t, db)
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return maps.Equal(want, s.rows)
		}, 30*time.Second, 5*time.Millisecond)
		pause.Unlock()
	}
	stop()
	require.NoError(t, writer.Stop())
}
