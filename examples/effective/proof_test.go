package effective_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/effective/proof"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func proofChapter() chapter {
	return chapter{
		dir: "proof", page: "10-proof.md", wrong: wrongProof, right: rightProof,
		rule: "end-state", plan: "crash-after(orders update order/a#1)",
	}
}

func TestOrdersSurviveFaultsInARealManager(t *testing.T) {
	simtest.Run(t, func() simtest.World {
		w := rightProof()
		w.Mode, w.Pairs = "run", 20
		return w
	})
}

func TestHangingProgramIsHealthyUntilProbed(t *testing.T) {
	for name, hang := range map[string]func(orders *interceptor.Store[proof.Order], invoices *hanging){
		"a reconcile ignores its context": func(_ *interceptor.Store[proof.Order], invoices *hanging) { invoices.hang.Store(true) },
		"the connection of a watch is dead": func(orders *interceptor.Store[proof.Order], _ *hanging) {
			orders.Inject(interceptor.Rule{Op: "watch", Times: -1, Fault: interceptor.Hang()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := store.NewMemory(store.MemoryConfig{})
				ordersOf, err := store.Open(db, "order", store.Config[proof.Order]{})
				require.NoError(t, err)
				invoicesOf, err := store.Open(db, "invoice", store.Config[proof.Invoice]{})
				require.NoError(t, err)
				orders := interceptor.New(ordersOf)
				invoices := &hanging{Store: invoicesOf, goOn: make(chan struct{})}
				c, err := proof.NewRight(orders, invoices)
				require.NoError(t, err)
				m, err := manager.New(manager.Config{Logger: slog.New(slog.DiscardHandler)}, c)
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				// Runs the manager, and ends after stop.
				go func() { ended <- m.Run(ctx) }()
				time.Sleep(time.Minute)
				require.Equal(t, []int{200, 200, 200}, probe(m))

				hang(orders, invoices)
				orders.BreakWatches(errors.New("the connection is lost"))
				_, err = orders.Create(ctx, store.Object[proof.Order]{Key: "a", Value: proof.Order{Item: "bicycle"}})
				require.NoError(t, err)
				time.Sleep(20 * time.Minute)
				require.Equal(t, []int{200, 503, 503}, probe(m), "of the wrong probes, /livez, and /readyz")
				stop()
				close(invoices.goOn)
				require.NoError(t, <-ended)
			})
		})
	}
}

// probe returns the answers of the wrong probes, and of /livez and /readyz.
func probe(m *manager.Manager) (codes []int) {
	for _, p := range []struct {
		handler http.Handler
		path    string
	}{{proof.WrongProbes(), "/healthz"}, {proof.Probes(m), "/livez"}, {proof.Probes(m), "/readyz"}} {
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, p.path, nil))
		codes = append(codes, w.Code)
	}
	return codes
}

// hanging is a store whose driver ignores contexts.
type hanging struct {
	store.Store[proof.Invoice]

	hang atomic.Bool
	goOn chan struct{} // closed when the call may continue
}

func (h *hanging) Create(
	ctx context.Context, o store.Object[proof.Invoice], pre ...store.Precondition,
) (store.Object[proof.Invoice], error) {
	if h.hang.Load() {
		<-h.goOn
	}
	return h.Store.Create(ctx, o, pre...)
}

func wrongProof() simtest.World {
	return proofWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, batch, err := proof.NewWrong(simtest.Open[proof.Order](env, "order"), simtest.Open[proof.Invoice](env, "invoice"))
		return []simtest.Part{simtest.Loop(c), simtest.Background(batch)}, err
	})
}

func rightProof() simtest.World {
	return proofWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := proof.NewRight(simtest.Open[proof.Order](env, "order"), simtest.Open[proof.Invoice](env, "invoice"))
		return []simtest.Part{simtest.Loop(c)}, err
	})
}

// proofWorld is an order.
func proofWorld(orders func(*simtest.Env) ([]simtest.Part, error)) simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "orders", New: orders}},
		Steps: []simtest.Step{
			simtest.Create("order", store.Object[proof.Order]{Key: "a", Value: proof.Order{Item: "bicycle"}}),
		},
	}
}
