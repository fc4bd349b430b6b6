package events_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

var (
	web  = store.Ref{Kind: "app", Key: "web", UID: "u1"}
	shop = store.Ref{Kind: "app", Key: "shop", UID: "u2"}
)

// brief shows events without their times.
func brief(all []events.Event) []string {
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s %s x%d", e.About.Key, e.Type, e.Reason, e.Message, e.Count))
	}
	return lines
}

func TestDifferentEventsAreNotMerged(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	require.Empty(t, r.Events())
	r.Normal(web, "Scaled", "to 3")
	r.Warning(web, "Scaled", "to 3")
	r.Normal(web, "Moved", "to 3")
	r.Normal(web, "Scaled", "to 4")
	r.Normal(store.Ref{Kind: "job", Key: "web", UID: "u1"}, "Scaled", "to 3")
	r.Normal(store.Ref{Kind: "app", Key: "web", UID: "u9"}, "Scaled", "to 3")
	r.Normal(store.Ref{Kind: "app", Key: "other", UID: "u1"}, "Scaled", "to 3")
	for _, e := range r.Events() {
		assert.Equal(t, 1, e.Count, e)
	}
	assert.Len(t, r.Events(), 7)
}

func TestDefaultSizeIs256(t *testing.T) {
	r := must(events.NewRecorder(events.Config{Burst: -1}))
	for n := range 300 {
		r.Normal(web, "N", fmt.Sprint(n))
	}
	all := r.Events()
	require.Len(t, all, 256)
	assert.Equal(t, "44", all[0].Message)
	assert.Equal(t, "299", all[255].Message)
}

func TestNegativeSizeHoldsNothingAndStillCallsSink(t *testing.T) {
	var received []events.Event
	r := must(events.NewRecorder(events.Config{Size: -1, Sink: func(e events.Event) { received = append(received, e) }}))
	r.Normal(web, "A", "")
	r.Normal(web, "A", "")
	assert.Empty(t, r.Events())
	assert.Equal(t, []string{"web Normal A  x1", "web Normal A  x1"}, brief(received))
	require.NoError(t, r.CheckInvariants())
}

func TestEventsOfOneOrAllIncarnations(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	again := store.Ref{Kind: "app", Key: "web", UID: "u9"}
	r.Normal(web, "Created", "")
	r.Normal(shop, "Created", "")
	r.Normal(store.Ref{Kind: "job", Key: "web", UID: "u1"}, "Created", "")
	r.Warning(again, "Broken", "")
	assert.Equal(t, []string{"web Normal Created  x1"}, brief(r.EventsFor(web)))
	assert.Equal(t, []string{"web Warning Broken  x1"}, brief(r.EventsFor(again)))
	assert.Equal(t, []string{"web Normal Created  x1", "web Warning Broken  x1"},
		brief(r.EventsFor(store.Ref{Kind: "app", Key: "web"})))
	assert.Empty(t, r.EventsFor(store.Ref{Kind: "app", Key: "none"}))
}

func TestSinkMayUseRecorder(t *testing.T) {
	var r *events.Recorder
	seen := 0
	r = must(events.NewRecorder(events.Config{Sink: func(e events.Event) {
		seen = len(r.Events()) // would wait forever if the lock were held
		if e.Reason == "A" {
			r.Normal(e.About, "B", "")
		}
	}}))
	r.Normal(web, "A", "")
	assert.Equal(t, 2, seen)
}

func TestEventsReturnsCopy(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	r.Normal(web, "A", "")
	all := r.Events()
	all[0].Message = "spoilt"
	r.Normal(web, "A", "")
	assert.Equal(t, []string{"web Normal A  x2"}, brief(r.Events()))
	assert.Equal(t, 1, all[0].Count)
}

func TestTypesHaveNames(t *testing.T) {
	assert.Equal(t, "Normal Warning Unknown", fmt.Sprint(events.Normal, " ", events.Warning, " ", events.Type(0)))
}

// The model is a slice. After every random call, both hold the same events.
func TestRecorderMatchesSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size := 1; size <= 5; size++ {
			random := rand.New(rand.NewPCG(uint64(size), 1))
			var received events.Event
			r := must(events.NewRecorder(events.Config{Size: size, Burst: -1, Sink: func(e events.Event) { received = e }}))
			var model []events.Event
			for range 2000 {
				time.Sleep(time.Duration(random.IntN(3)))
				e := events.Event{
					About: []store.Ref{web, shop}[random.IntN(2)], Type: []events.Type{events.Normal, events.Warning}[random.IntN(2)],
					Reason: string(rune('A' + random.IntN(3))), Count: 1, First: time.Now(), Last: time.Now(),
				}
				if e.Type == events.Normal {
					r.Normal(e.About, e.Reason, e.Message)
				} else {
					r.Warning(e.About, e.Reason, e.Message)
				}
				if i := slices.IndexFunc(model, func(m events.Event) bool {
					return m.About == e.About && m.Type == e.Type && m.Reason == e.Reason
				}); i >= 0 {
					e.Count, e.First = model[i].Count+1, model[i].First
					model = slices.Delete(model, i, i+1)
				}
				model = append(model, e)
				model = model[max(0, len(model)-size):]
				require.Equal(t, model, r.Events())
				require.Equal(t, e, received)
				require.NoError(t, r.CheckInvariants())
			}
		}
	})
}

func TestConcurrentRecordAndRead(t *testing.T) {
	const writers, each = 8, 200
	var mu sync.Mutex
	received := map[int]bool{}
	r := must(events.NewRecorder(events.Config{Size: 9, Burst: -1, Sink: func(e events.Event) {
		if e.Reason == "Same" {
			mu.Lock()
			defer mu.Unlock()
			received[e.Count] = true
		}
	}}))
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() { // ends after its calls; waited for below
			for n := range each {
				r.Normal(web, "Same", "")
				r.Warning(shop, "Other", fmt.Sprint(g%4, n%2)) // 8 different ones, which fit beside it
				assert.LessOrEqual(t, len(r.Events()), 9)
				assert.Len(t, r.EventsFor(web), 1)
			}
		})
	}
	wg.Wait()
	require.NoError(t, r.CheckInvariants())
	assert.Equal(t, writers*each, r.EventsFor(web)[0].Count)
	assert.Len(t, received, writers*each, "the sink got each count once")
}

func TestSlogSinkLogsEveryField(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	r := must(events.NewRecorder(events.Config{Sink: events.SlogSink(logger)}))
	r.Normal(web, "Scaled", "to 3")
	r.Warning(web, "NoCapacity", "no machine")
	r.Warning(web, "NoCapacity", "no machine")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		`level=INFO msg=event kind=app key=web uid=u1 reason=Scaled message="to 3" count=1`,
		`level=WARN msg=event kind=app key=web uid=u1 reason=NoCapacity message="no machine" count=1`,
		`level=WARN msg=event kind=app key=web uid=u1 reason=NoCapacity message="no machine" count=2`,
	} {
		assert.Contains(t, lines[i], want)
	}
	assert.Len(t, lines, 3)
}
