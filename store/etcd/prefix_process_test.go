package etcd_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// envPrefixWriter is the variable that makes the test binary a process that writes keys. Its value is a prefixWriter, as JSON.
const envPrefixWriter = "SETPOINT_ETCD_PREFIX_WRITER"

const writtenPrefix = "sites/"

// prefixWriter is a process that writes keys at random, with a bare client.
type prefixWriter struct {
	Addrs string
	Seed  uint64
}

// eagerly makes a client connect again within a second. By default, it waits for up to two minutes after some failures.
func eagerly(c *clientv3.Config) {
	c.DialOptions = append(c.DialOptions, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
	}))
}

// run writes with two goroutines until the standard input ends. It ignores errors: whoever reads does not know which writes were made.
func (w prefixWriter) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the parent closes the pipe, at the latest when the parent has died
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	c, err := dial(w.Addrs, eagerly)
	if err != nil {
		return err
	}
	var g sync.WaitGroup
	for i := range 2 {
		g.Go(func() { // writes until ctx ends
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				writing, cancel := context.WithTimeout(ctx, 2*time.Second)
				if err := randomWrite(writing, c, random, n); err != nil {
					time.Sleep(10 * time.Millisecond) // the servers may be away
				}
				cancel()
			}
		})
	}
	g.Wait()
	return nil
}

// randomWrite makes one transaction, of one key or of several.
func randomWrite(ctx context.Context, c *clientv3.Client, random *rand.Rand, n int) error {
	names := random.Perm(12)
	next := func() string { // no transaction may write a key twice
		name := names[0]
		names = names[1:]
		return fmt.Sprintf("%s%d/%d", writtenPrefix, name%3, name)
	}
	value := func() string {
		if random.IntN(10) == 0 {
			return "bad"
		}
		return strconv.Itoa(n)
	}
	op := func(ops ...clientv3.OpOption) clientv3.Op {
		if random.IntN(3) == 0 {
			return clientv3.OpDelete(next())
		}
		return clientv3.OpPut(next(), value(), ops...)
	}
	commit := func(ops ...clientv3.Op) error {
		_, err := c.Txn(ctx).Then(ops...).Commit()
		return err
	}
	switch random.IntN(12) {
	default:
		return commit(op())
	case 0, 1, 2:
		var ops []clientv3.Op
		for range 2 + random.IntN(6) {
			ops = append(ops, op())
		}
		return commit(ops...)
	case 3: // a key twice in one revision
		name := next()
		return commit(
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(name, value()), op()}, nil),
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(name), op()}, nil),
		)
	case 4:
		return commit(clientv3.OpDelete(fmt.Sprintf("%s%d/", writtenPrefix, random.IntN(3)), clientv3.WithPrefix()))
	case 5: // which ends by itself, or at once
		lease, err := c.Grant(ctx, 1)
		if err != nil {
			return err
		}
		err = commit(clientv3.OpPut(next(), value(), clientv3.WithLease(lease.ID)), clientv3.OpPut(next(), value(), clientv3.WithLease(lease.ID)))
		if err == nil && random.IntN(2) == 0 {
			_, err = c.Revoke(ctx, lease.ID)
		}
		return err
	case 6:
		return commit(clientv3.OpPut("another/key", ""))
	}
}
