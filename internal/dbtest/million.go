package dbtest

import (
	"runtime"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// heapLimit is the maximum growth of the heap of a client while it reads.
const heapLimit = 64 << 20

// Heap measures the heap of the process while something is read.
type Heap struct {
	t            testing.TB
	begin        time.Time
	before, most uint64
	looks        int
}

// NewHeap begins a measurement.
func NewHeap(t testing.TB) *Heap {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &Heap{t: t, begin: time.Now(), before: m.HeapAlloc, most: m.HeapAlloc}
}

// Look is called for each item that was read. It measures at intervals.
func (h *Heap) Look() {
	if h.looks++; h.looks%500 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.most = max(h.most, m.HeapAlloc)
	}
}

// End logs the measurement, and fails the test if the heap, garbage included, has grown by more than 64 MB.
func (h *Heap) End(what string) {
	h.t.Helper()
	h.t.Logf("%s: %d in %v, the heap grew by %.1f MB at most",
		what, h.looks, time.Since(h.begin).Round(time.Millisecond), float64(h.most-h.before)/(1<<20))
	if h.most-h.before > heapLimit {
		h.t.Errorf("%s: the heap grew by more than %d MB", what, heapLimit>>20)
	}
}

// ReadsInBoundedMemory lists the objects of the kind app, calls change once, and watches the changes. It checks the numbers of objects and
// changes, and the memory.
func ReadsInBoundedMemory(t testing.TB, db backend.Backend, objects, changes int, change func()) {
	t.Helper()
	var at informer.Version
	heap, n := NewHeap(t), 0
	for page, err := range db.List(t.Context(), "app", backend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		at = page.Version
		for range page.Records {
			n++
			heap.Look()
		}
	}
	heap.End("list")
	if n != objects {
		t.Errorf("the list has %d objects, want %d", n, objects)
	}
	change()
	heap, n = NewHeap(t), 0
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, at) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Record.Key == "" {
			continue
		}
		heap.Look()
		if n++; n == changes {
			break
		}
	}
	heap.End("watch")
}
