package prometheus_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/workqueue"
)

// The benchmarks compare a part that is scraped, and shown on the live page of package debug, with one that is neither. Each iteration
// runs both, for half a second in turn, so that whatever else the machine does hits both. The part is scraped once in its half second,
// and the overview of the page is read once. They report the time of each, and the ratio.
//
//	go test -run=NONE -bench=Scraped -benchtime=20x -count=10 ./metrics/prometheus

func BenchmarkScrapedQueueCycle(b *testing.B) {
	compare(b, func() (part any, cycle func()) {
		q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
		return q, func() {
			q.Add("berlin")
			item, _ := q.TryTake()
			item.Done()
		}
	})
}

func BenchmarkScrapedReconcile(b *testing.B) {
	compare(b, func() (part any, cycle func()) {
		c := must(controller.New("sites", noop[string], controller.Config[string]{Logger: quiet}))
		ctx := context.Background()
		return c, func() {
			c.Add("berlin")
			c.Step(ctx, "berlin")
		}
	})
}

// compare measures the cycles of two parts of the same make.
func compare(b *testing.B, newPart func() (part any, cycle func())) {
	_, without := newPart()
	part, with := newPart()
	reg := prometheus.NewRegistry()
	m := must(manager.New(manager.Config{Logger: quiet}))
	x := must(setpointprom.New(reg, m))
	if err := x.Add("scraped", part); err != nil {
		b.Fatal(err)
	}
	page := must(debug.New(m, debug.Config{Logger: quiet}))
	if err := page.Add("shown", part); err != nil {
		b.Fatal(err)
	}
	read := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	read.RemoteAddr = "127.0.0.1:1"
	const half = 500 * time.Millisecond
	measure := func(cycle func()) (cycles int, took time.Duration) {
		began := time.Now()
		for took < half {
			for range 1000 {
				cycle()
			}
			cycles += 1000
			took = time.Since(began)
		}
		return cycles, took
	}
	var n [2]int
	var took [2]time.Duration
	note := func(i int, cycle func()) {
		cycles, d := measure(cycle)
		n[i] += cycles
		took[i] += d
	}
	for b.Loop() {
		note(0, without)
		// In the middle, in a goroutine of its own, as a server does it. It has ended when the half second has.
		looked := make(chan struct{})
		shown := httptest.NewRecorder()
		time.AfterFunc(half/2, func() {
			defer close(looked)
			_, _ = reg.Gather()
			page.ServeHTTP(shown, read)
		})
		note(1, with)
		<-looked
		if shown.Code != http.StatusOK {
			b.Fatal(shown.Body)
		}
	}
	perCycle := [2]float64{}
	for i := range n {
		perCycle[i] = float64(took[i].Nanoseconds()) / float64(n[i])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perCycle[0], "without-ns")
	b.ReportMetric(perCycle[1], "with-ns")
	b.ReportMetric(perCycle[1]/perCycle[0], "ratio")
}
