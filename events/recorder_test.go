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

	"github.com/google/go-cmp/cmp"

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

func TestEventsAreHeldInChronologicalOrder(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	if got := r.Events(); len(got) != 0 {
		t.Fatalf("r.Events() = %v, want none", got)
	}
	r.Normal(web, "Scaled", "to 3")
	r.Warning(web, "NoCapacity", "no machine")
	r.Normal(shop, "Scaled", "to 3")
	if err := r.CheckInvariants(); err != nil {
		t.Fatalf("r.CheckInvariants(): %v", err)
	}
	if diff := cmp.Diff([]string{
		"web Normal Scaled to 3 x1", "web Warning NoCapacity no machine x1", "shop Normal Scaled to 3 x1",
	}, brief(r.Events())); diff != "" {
		t.Errorf("brief(r.Events()) mismatch (-want +got):\n%s", diff)
	}
}

func TestRepeatIsCountedAndBecomesNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{}))
		start := time.Now()
		r.Normal(web, "Scaled", "to 3")
		time.Sleep(time.Second)
		r.Normal(shop, "Scaled", "to 3")
		time.Sleep(time.Second)
		r.Normal(web, "Scaled", "to 3")
		all := r.Events()
		if diff := cmp.Diff([]string{"shop Normal Scaled to 3 x1", "web Normal Scaled to 3 x2"}, brief(all)); diff != "" {
			t.Fatalf("brief(all) mismatch (-want +got):\n%s", diff)
		}
		if !all[1].First.Equal(start) {
			t.Error("all[1].First.Equal(start) is false")
		}
		if !all[1].Last.Equal(start.Add(2 * time.Second)) {
			t.Error("all[1].Last.Equal(start.Add(2*time.Second)) is false")
		}
		if !all[0].First.Equal(start.Add(time.Second)) {
			t.Error("all[0].First.Equal(start.Add(time.Second)) is false")
		}
		if !all[0].Last.Equal(start.Add(time.Second)) {
			t.Error("all[0].Last.Equal(start.Add(time.Second)) is false")
		}
		if err := r.CheckInvariants(); err != nil {
			t.Fatalf("r.CheckInvariants(): %v", err)
		}
	})
}

func TestDifferentEventsAreNotMerged(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	r.Normal(web, "Scaled", "to 3")
	r.Warning(web, "Scaled", "to 3")
	r.Normal(web, "Moved", "to 3")
	r.Normal(web, "Scaled", "to 4")
	r.Normal(store.Ref{Kind: "job", Key: "web", UID: "u1"}, "Scaled", "to 3")
	r.Normal(store.Ref{Kind: "app", Key: "web", UID: "u9"}, "Scaled", "to 3")
	r.Normal(store.Ref{Kind: "app", Key: "other", UID: "u1"}, "Scaled", "to 3")
	for _, e := range r.Events() {
		if e.Count != 1 {
			t.Errorf("%v: e.Count = %v, want 1", e, e.Count)
		}
	}
	if got := r.Events(); len(got) != 7 {
		t.Errorf("len(r.Events()) = %d, want 7: %v", len(got), got)
	}
}

func TestDroppedEventStartsAgainFromOne(t *testing.T) {
	r := must(events.NewRecorder(events.Config{Size: 2}))
	r.Normal(web, "A", "")
	r.Normal(web, "A", "")
	r.Normal(web, "B", "")
	r.Normal(web, "C", "")
	if got, want := brief(r.Events()), ([]string{"web Normal B  x1", "web Normal C  x1"}); !slices.Equal(got, want) {
		t.Fatalf("brief(r.Events()) = %q, want %q", got, want)
	}
	r.Normal(web, "B", "") // the newest now, so that C goes next
	r.Normal(web, "A", "")
	if got, want := brief(r.Events()), ([]string{"web Normal B  x2", "web Normal A  x1"}); !slices.Equal(got, want) {
		t.Fatalf("brief(r.Events()) = %q, want %q", got, want)
	}
	if err := r.CheckInvariants(); err != nil {
		t.Fatalf("r.CheckInvariants(): %v", err)
	}
}

func TestDefaultSizeIs256(t *testing.T) {
	r := must(events.NewRecorder(events.Config{Burst: -1}))
	for n := range 300 {
		r.Normal(web, "N", fmt.Sprint(n))
	}
	all := r.Events()
	if len(all) != 256 {
		t.Fatalf("len(all) = %d, want 256: %v", len(all), all)
	}
	if all[0].Message != "44" {
		t.Errorf("all[0].Message = %q, want %q", all[0].Message, "44")
	}
	if all[255].Message != "299" {
		t.Errorf("all[255].Message = %q, want %q", all[255].Message, "299")
	}
}

func TestNegativeSizeHoldsNothingAndStillCallsSink(t *testing.T) {
	var told []events.Event
	r := must(events.NewRecorder(events.Config{Size: -1, Sink: func(e events.Event) { told = append(told, e) }}))
	r.Normal(web, "A", "")
	r.Normal(web, "A", "")
	if got := r.Events(); len(got) != 0 {
		t.Errorf("r.Events() = %v, want none", got)
	}
	if got, want := brief(told), ([]string{"web Normal A  x1", "web Normal A  x1"}); !slices.Equal(got, want) {
		t.Errorf("brief(told) = %q, want %q", got, want)
	}
	if err := r.CheckInvariants(); err != nil {
		t.Fatalf("r.CheckInvariants(): %v", err)
	}
}

func TestEventsOfOneOrAllIncarnations(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	again := store.Ref{Kind: "app", Key: "web", UID: "u9"}
	r.Normal(web, "Created", "")
	r.Normal(shop, "Created", "")
	r.Normal(store.Ref{Kind: "job", Key: "web", UID: "u1"}, "Created", "")
	r.Warning(again, "Broken", "")
	if got, want := brief(r.EventsFor(web)), ([]string{"web Normal Created  x1"}); !slices.Equal(got, want) {
		t.Errorf("brief(r.EventsFor(web)) = %q, want %q", got, want)
	}
	if got, want := brief(r.EventsFor(again)), ([]string{"web Warning Broken  x1"}); !slices.Equal(got, want) {
		t.Errorf("brief(r.EventsFor(again)) = %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"web Normal Created  x1", "web Warning Broken  x1"}, brief(r.EventsFor(store.Ref{Kind: "app", Key: "web"}))); diff != "" {
		t.Errorf("brief(r.EventsFor(store.Ref{Kind: \"app\", Key: \"web\"})) mismatch (-want +got):\n%s", diff)
	}
	if got := r.EventsFor(store.Ref{Kind: "app", Key: "none"}); len(got) != 0 {
		t.Errorf(`r.EventsFor(store.Ref{Kind: "app", Key: "none"}) = %v, want none`, got)
	}
}

func TestSinkReceivesEveryCallWithCurrentEvent(t *testing.T) {
	var told []events.Event
	r := must(events.NewRecorder(events.Config{Sink: func(e events.Event) { told = append(told, e) }}))
	r.Normal(web, "A", "")
	r.Warning(shop, "B", "")
	r.Normal(web, "A", "")
	if diff := cmp.Diff([]string{"web Normal A  x1", "shop Warning B  x1", "web Normal A  x2"}, brief(told)); diff != "" {
		t.Errorf("brief(told) mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.Events()[1], told[2]); diff != "" {
		t.Errorf("told[2] mismatch (-want +got):\n%s", diff)
	}
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
	if seen != 2 {
		t.Errorf("seen = %v, want 2", seen)
	}
}

func TestEventsReturnsCopy(t *testing.T) {
	r := must(events.NewRecorder(events.Config{}))
	r.Normal(web, "A", "")
	all := r.Events()
	all[0].Message = "spoilt"
	r.Normal(web, "A", "")
	if got, want := brief(r.Events()), ([]string{"web Normal A  x2"}); !slices.Equal(got, want) {
		t.Errorf("brief(r.Events()) = %q, want %q", got, want)
	}
	if all[0].Count != 1 {
		t.Errorf("all[0].Count = %v, want 1", all[0].Count)
	}
}

func TestTypesHaveNames(t *testing.T) {
	if got := fmt.Sprint(events.Normal, " ", events.Warning, " ", events.Type(0)); got != "Normal Warning Unknown" {
		t.Errorf(`fmt.Sprint(events.Normal, " ", events.Warning, " ", events.Type(0)) = %q, want %q`, got, "Normal Warning Unknown")
	}
}

// The model is a slice. After every random call, both hold the same events.
func TestRecorderMatchesSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size := 1; size <= 5; size++ {
			random := rand.New(rand.NewPCG(uint64(size), 1))
			var told events.Event
			r := must(events.NewRecorder(events.Config{Size: size, Burst: -1, Sink: func(e events.Event) { told = e }}))
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
				if got := r.Events(); !slices.Equal(got, model) {
					t.Fatalf("r.Events() mismatch (-want +got):\n%s", cmp.Diff(model, got))
				}
				if told != e {
					t.Fatalf("told = %v, want %v", told, e)
				}
				if err := r.CheckInvariants(); err != nil {
					t.Fatalf("r.CheckInvariants(): %v", err)
				}
			}
		}
	})
}

func TestConcurrentRecordAndRead(t *testing.T) {
	const writers, each = 8, 200
	var mu sync.Mutex
	told := map[int]bool{}
	r := must(events.NewRecorder(events.Config{Size: 9, Burst: -1, Sink: func(e events.Event) {
		if e.Reason == "Same" {
			mu.Lock()
			defer mu.Unlock()
			told[e.Count] = true
		}
	}}))
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() { // ends after its calls; waited for below
			for n := range each {
				r.Normal(web, "Same", "")
				r.Warning(shop, "Other", fmt.Sprint(g%4, n%2)) // 8 different ones, which fit beside it
				if got := len(r.Events()); got > 9 {
					t.Errorf("len(r.Events()) = %v, want at most 9", got)
				}
				if got := r.EventsFor(web); len(got) != 1 {
					t.Errorf("len(r.EventsFor(web)) = %d, want 1: %v", len(got), got)
				}
			}
		})
	}
	wg.Wait()
	if err := r.CheckInvariants(); err != nil {
		t.Fatalf("r.CheckInvariants(): %v", err)
	}
	if got := r.EventsFor(web)[0].Count; got != writers*each {
		t.Errorf("r.EventsFor(web)[0].Count = %v, want %v", got, writers*each)
	}
	if len(told) != writers*each {
		t.Errorf("the sink got each count once: len(told) = %d, want %d: %v", len(told), writers*each, told)
	}
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
		if !strings.Contains(lines[i], want) {
			t.Errorf("lines[i] = %q, want it to contain %q", lines[i], want)
		}
	}
	if len(lines) != 3 {
		t.Errorf("len(lines) = %d, want 3: %v", len(lines), lines)
	}
}
