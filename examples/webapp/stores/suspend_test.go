//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
	"github.com/setpoint-go/setpoint/store/backend"
)

// suspending is a database for a program that suspends itself when it deletes an app as the leader: the deletion was sent,
// and arrives when the program is resumed.
type suspending struct {
	backend.Backend
	writes sync.RWMutex // held by each write, so that none is in the middle then: in SQLite it would hold up all others
}

func (db *suspending) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	if kind != "WebApp" || len(fences) == 0 || !db.deletes(ctx, kind, key, decide) {
		db.writes.RLock()
		defer db.writes.RUnlock()
		return db.Backend.Transact(ctx, kind, key, fences, decide)
	}
	resumed := make(chan os.Signal, 1) // receives, from package signal, until Stop; never closed
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	db.writes.Lock()
	fmt.Println("suspended")
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
	<-resumed
	db.writes.Unlock()
	written, err := db.Backend.Transact(context.WithoutCancel(ctx), kind, key, fences, decide)
	fmt.Println("written late:", err)
	return written, err
}

// deletes reports whether a write is a deletion.
func (db *suspending) deletes(ctx context.Context, kind, key string, decide backend.Decide) bool {
	have, err := db.Get(ctx, kind, key)
	if err != nil {
		return false
	}
	next, err := decide(have)
	return err == nil && next != nil && next.Deleted
}

// suspended returns the databases for a program that suspends itself.
func suspended(openers map[string]orchestrator.Opener) map[string]orchestrator.Opener {
	for scheme, open := range openers {
		openers[scheme] = func(ctx context.Context, address, name string, create bool) (backend.Backend, func(), error) {
			db, closeDB, err := open(ctx, address, name, create)
			return &suspending{Backend: db}, closeDB, err
		}
	}
	return openers
}
