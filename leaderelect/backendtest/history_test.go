//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

const (
	clients = 4
	rounds  = 250 // of each client: a read and a write, and a pause
)

// cluster is the setup of a history: a store for each client, and its faults. Proxies and restart
// may be missing.
type cluster struct {
	stores  []leaderelect.LeaseStore
	proxies []*servertest.Proxy
	restart func()
}

// swap is a call of a register: a read, or a compare-and-swap of values that are written once.
type swap struct {
	write    bool
	old, new string
}

// answer is the result: the value of a read; for a write, whether it happened, if that is known.
type answer struct {
	value          string
	done, conflict bool
}

// register is the register for porcupine. Its state is the value.
func register() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{"0"} },
		Step: func(state, input, output any) []any {
			have, call, reply := state.(string), input.(swap), output.(answer)
			switch {
			case !call.write && reply.value == have, call.write && reply.conflict && call.old != have:
				return []any{have}
			case call.write && reply.done && call.old == have:
				return []any{call.new}
			case call.write && !reply.done && !reply.conflict && call.old == have:
				return []any{have, call.new}
			case call.write && !reply.done && !reply.conflict:
				return []any{have}
			default:
				return nil
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}).ToModel()
}

// linearizable lets clients loose on one record, makes their connections and the server fail, and has porcupine check
// what they saw.
func linearizable(t *testing.T, open func(t *testing.T) cluster) {
	c := open(t)
	_, err := c.stores[0].Create(context.Background(), leaderelect.Entry{Key: "register", Value: []byte("0")})
	require.NoError(t, err)
	var mu sync.Mutex
	var history []porcupine.Operation
	unknown := 0
	begin := time.Now()
	note := func(client int, in swap, out answer, from, to time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		end := int64(to)
		if in.write && !out.done && !out.conflict {
			end = math.MaxInt64
			unknown++
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(from), Return: end})
	}

	var working, failing sync.WaitGroup
	stop := make(chan struct{})
	for client, s := range c.stores {
		// A client. It ends after its rounds; the test waits for it.
		working.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				from := time.Since(begin)
				e, err := s.Get(ctx, "register")
				if err == nil {
					note(client, swap{}, answer{value: string(e.Value)}, from, time.Since(begin))
					old := string(e.Value)
					e.Value = fmt.Appendf(nil, "%d-%d", client, i)
					from := time.Since(begin)
					_, err = s.Update(ctx, e)
					note(client, swap{write: true, old: old, new: string(e.Value)},
						answer{done: err == nil, conflict: errors.Is(err, leaderelect.ErrConflict)}, from, time.Since(begin))
				}
				cancel()
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
				if err != nil && !errors.Is(err, leaderelect.ErrConflict) {
					time.Sleep(20 * time.Millisecond) // the server may be down
				}
			}
		})
	}
	// This goroutine injects faults. It ends when the clients are done. The test waits for it.
	failing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if len(c.proxies) == 0 {
				continue
			}
			p := c.proxies[rand.IntN(len(c.proxies))]
			switch i % 8 {
			case 0, 3, 5:
				p.CutNextReply()
			case 1:
				p.Cut()
			case 2:
				p.Stall()
				time.AfterFunc(100*time.Millisecond, p.Heal)
			case 4:
				p.Slow(5 * time.Millisecond)
				time.AfterFunc(50*time.Millisecond, p.Heal)
			case 6:
				if i == 6 {
					c.restart()
				}
			}
		}
	})
	working.Wait()
	close(stop)
	failing.Wait()
	for _, p := range c.proxies {
		p.Heal()
	}

	from := time.Since(begin)
	var e leaderelect.Entry
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		e, err = c.stores[0].Get(ctx, "register")
		return err == nil
	}, patience, 10*time.Millisecond)
	note(0, swap{}, answer{value: string(e.Value)}, from, time.Since(begin))
	written := slices.ContainsFunc(history, func(o porcupine.Operation) bool { return o.Output.(answer).done })
	require.True(t, written, "no write was successful")
	t.Logf("%d calls in %v, the outcome of %d unknown", len(history), time.Since(begin).Round(time.Millisecond), unknown)
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(register(), history, time.Minute))
}

func TestRegisterDetectsViolations(t *testing.T) {
	read := func(value string) porcupine.Operation {
		return porcupine.Operation{Input: swap{}, Output: answer{value: value}}
	}
	write := func(old, new string, out answer) porcupine.Operation {
		return porcupine.Operation{Input: swap{write: true, old: old, new: new}, Output: out}
	}
	done, conflict, unknown := answer{done: true}, answer{conflict: true}, answer{}
	for name, c := range map[string]struct {
		legal bool
		calls []porcupine.Operation
	}{
		"a write is seen": {true, []porcupine.Operation{write("0", "a", done), read("a")}},
		"a write is lost": {false, []porcupine.Operation{write("0", "a", done), read("0")}},
		"a write replaces a value that it did not read": {false, []porcupine.Operation{write("0", "a", done), write("0", "b", done)}},
		"a conflict for no reason":                      {false, []porcupine.Operation{write("0", "a", conflict)}},
		"a conflict that has written":                   {false, []porcupine.Operation{write("b", "a", conflict), read("a")}},
		"an ambiguous write that was applied":           {true, []porcupine.Operation{write("0", "a", unknown), read("a")}},
		"an ambiguous write that was not applied":       {true, []porcupine.Operation{write("0", "a", unknown), read("0")}},
		"an ambiguous write that is applied late":       {true, []porcupine.Operation{write("0", "a", unknown), read("0"), read("a")}},
		"an ambiguous write that is undone":             {false, []porcupine.Operation{write("0", "a", unknown), read("a"), read("0")}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.calls {
				c.calls[i].Call, c.calls[i].Return = int64(2*i), int64(2*i+1)
				if c.calls[i].Output == unknown && c.calls[i].Input.(swap).write {
					c.calls[i].Return = math.MaxInt64
				}
			}
			require.Equal(t, c.legal, porcupine.CheckOperations(register(), c.calls))
		})
	}
}
