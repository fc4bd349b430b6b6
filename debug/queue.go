package debug

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/workqueue"
)

// queuePage is the page of the keys of a queue.
type queuePage struct {
	header
	Queue   queueView      `json:"queue"`
	State   string         `json:"state"` // the filter
	Query   string         `json:"query"`
	Error   string         `json:"error,omitempty"` // the digest of a message, if only the keys with this error are listed
	Counts  map[string]int `json:"counts"`          // of the keys that match Query and Error, by filter
	Errors  []errorView    `json:"errors"`          // of the keys that match Query, the most frequent first
	Others  int            `json:"otherErrors"`     // number of keys whose error is not in Errors
	Parked  int            `json:"parked"`          // number of keys that match Query and Error, and are parked
	Page    int            `json:"page"`            // counted from 1
	Pages   int            `json:"pages"`
	Keys    []keyView      `json:"keys"`
	Exact   []placeView    `json:"exact"` // the places that have the key Query: the queue, and the caches of the controller
	Filters []string       `json:"-"`
}

// keyView is a key in a list.
type keyView struct {
	Key   string `json:"key"`
	Link  string `json:"link"`
	State string `json:"state"`

	Since        time.Time    `json:"since,omitzero"`
	Dirty        bool         `json:"dirty,omitempty"`
	Attempt      int          `json:"attempt,omitempty"`
	Failures     int          `json:"failures,omitempty"`
	FirstFailure time.Time    `json:"firstFailure,omitzero"`
	Next         time.Time    `json:"next,omitzero"`
	QuietUntil   time.Time    `json:"quietUntil,omitzero"`
	Priority     int          `json:"priority,omitempty"`
	Group        string       `json:"group,omitempty"`
	Paused       bool         `json:"paused,omitempty"`
	PausedSince  time.Time    `json:"pausedSince,omitzero"`
	HeldBy       string       `json:"heldBy,omitempty"`
	HeldUntil    time.Time    `json:"heldUntil,omitzero"`
	Reasons      []reasonView `json:"reasons,omitempty"`
}

type reasonView struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// The states of a key, in the order of a list.
const (
	stateInFlight   = "in flight"
	stateReady      = "ready"
	stateHeld       = "held"
	stateDelayed    = "delayed"
	stateParked     = "parked"
	statePaused     = "paused"     // and not due
	stateRemembered = "remembered" // for failures
	stateIdle       = "idle"
)

// states are the states in the order of a list. stateFailing is an additional filter.
func states() []string {
	return []string{stateInFlight, stateReady, stateHeld, stateDelayed, stateParked, statePaused, stateRemembered}
}

const (
	filterAll     = "all"
	filterFailing = "failing"
)

// keysPerPage is the number of keys on a page, and mostPages is the maximum page number.
const (
	keysPerPage = 100
	mostPages   = 1_000_000
)

// stateOf returns the state of a key.
func stateOf(k controller.KeyInfo) string {
	switch {
	case k.State == workqueue.InProcess:
		return stateInFlight
	case k.State == workqueue.Ready:
		return stateReady
	case k.HeldBy != "":
		return stateHeld
	case k.State == workqueue.Delayed:
		return stateDelayed
	case k.State == workqueue.Parked:
		return stateParked
	case k.Paused:
		return statePaused
	case k.State == workqueue.Remembered:
		return stateRemembered
	}
	return stateIdle
}

// row is a key that may be on the page.
type row struct {
	controller.KeyInfo
	state string
	rank  int
}

// compareRows orders rows by state, and within it: the earliest due, or the longest in the state, comes first.
func compareRows(a, b row) int {
	return cmp.Or(
		cmp.Compare(a.rank, b.rank), a.HeldUntil.Compare(b.HeldUntil), a.Next.Compare(b.Next), a.Since.Compare(b.Since),
		strings.Compare(a.Key, b.Key),
	)
}

// queue makes the page of a queue.
func (h *Handler) queue(r *http.Request) (page, error) {
	ps := h.parts()
	h.sample(ps)
	form := r.URL.Query()
	name := form.Get("name")
	c, ok := find[aController](ps, name)
	if !ok {
		return page{}, notFound("There is no controller %q.", name)
	}
	q := &queuePage{header: h.header(ps, name), Queue: h.controllerView(name, c.Stats()), Query: form.Get("q"), Error: form.Get("error")}
	q.Filters = append([]string{filterAll, filterFailing}, states()...)
	q.State = form.Get("state")
	if !slices.Contains(q.Filters, q.State) {
		q.State = filterAll
	}
	q.Exact = []placeView{}
	if q.Query != "" {
		q.Exact = append(q.Exact, ps.placesOf(name, c, q.Query)...)
	}
	h.list(c.Inspect(), q, pageNumber(form))
	return page{"queue", q}, nil
}

// list fills in the keys of a page. It keeps no more rows than it needs for the page, and for the pages before it.
func (h *Handler) list(in controller.Inspector, q *queuePage, number int) {
	q.Counts = make(map[string]int, len(q.Filters))
	for _, filter := range q.Filters {
		q.Counts[filter] = 0
	}
	ranks := make(map[string]int)
	for i, s := range states() {
		ranks[s] = i
	}
	most := number * keysPerPage
	var rows []row
	var failed failures
	listed := choice{q.Query, q.Error}
	prune := func() {
		slices.SortFunc(rows, compareRows)
		rows = rows[:min(most, len(rows))]
	}
	for k := range in.Keys() {
		if !listed.hasKey(k) {
			continue
		}
		message, fails := failureOf(k)
		if fails {
			failed.add(k, message)
		}
		if !listed.hasError(message, fails) {
			continue
		}
		if k.State == workqueue.Parked {
			q.Parked++
		}
		state := stateOf(k)
		q.Counts[filterAll]++
		q.Counts[state]++
		if k.Failures > 0 {
			q.Counts[filterFailing]++
		}
		if q.State != filterAll && q.State != state && (q.State != filterFailing || k.Failures == 0) {
			continue
		}
		rows = append(rows, row{k, state, ranks[state]})
		if len(rows) >= 2*most+1000 {
			prune()
		}
	}
	prune()
	q.Errors, q.Others = failed.views()
	for i := range q.Errors {
		e := &q.Errors[i]
		e.ID = digest(e.Message)
		e.Link = withError(queueLink(q.Queue.Name, "", q.Query, 0), e.ID)
	}
	q.Pages = pagesOf(q.Counts[q.State])
	q.Page = min(number, q.Pages)
	q.Keys = []keyView{}
	from := min((q.Page-1)*keysPerPage, len(rows))
	for _, r := range rows[from:min(from+keysPerPage, len(rows))] {
		q.Keys = append(q.Keys, viewOf(q.Queue.Name, r.KeyInfo))
	}
}

// viewOf returns the view of a key.
func viewOf(queue string, k controller.KeyInfo) keyView {
	v := keyView{
		Key: k.Key, Link: keyLink(queue, k.Key), State: stateOf(k), Since: k.Since, Dirty: k.Dirty, Attempt: k.Attempt,
		Failures: k.Failures, FirstFailure: k.FirstFailure, Next: k.Next, QuietUntil: k.QuietUntil, Priority: k.Priority, Group: k.Group,
		Paused: k.Paused, PausedSince: k.PausedSince, HeldBy: k.HeldBy, HeldUntil: k.HeldUntil,
	}
	for _, r := range k.Reasons {
		v.Reasons = append(v.Reasons, reasonView{r.Text, r.At})
	}
	return v
}

// Last returns the latest reason of k.
func (k keyView) Last() string {
	if n := len(k.Reasons); n > 0 {
		return k.Reasons[n-1].Text
	}
	return ""
}

// FilterLink returns the link to the first page with another filter.
func (q *queuePage) FilterLink(state string) string {
	return withError(queueLink(q.Queue.Name, state, q.Query, 0), q.Error)
}

// PageLink returns the link to a page near this one, or "" if there is no such page.
func (q *queuePage) PageLink(delta int) string {
	n := q.Page + delta
	if n < 1 || n > q.Pages {
		return ""
	}
	return withError(queueLink(q.Queue.Name, q.State, q.Query, n), q.Error)
}

// QueryLink returns the link to the page of the key that is searched for, which need not be in the queue.
func (q *queuePage) QueryLink() string { return keyLink(q.Queue.Name, q.Query) }

// JSONLink returns the link to the page as JSON.
func (q *queuePage) JSONLink() string {
	return withError(queueLink(q.Queue.Name, q.State, q.Query, q.Page), q.Error) + "&format=json"
}

// ConfirmLink returns the link to the page that asks before an action on many keys: those with an error, or all that are listed.
func (q *queuePage) ConfirmLink(action, err string) string {
	return confirmLink(q.Queue.Name, action, choice{q.Query, cmp.Or(err, q.Error)})
}

// AllErrorsLink returns the link to the list of the keys with any error, or with none.
func (q *queuePage) AllErrorsLink() string { return queueLink(q.Queue.Name, q.State, q.Query, 0) }

// Range returns the range of keys on the page, as text.
func (q *queuePage) Range() string { return rangeOf(q.Page, len(q.Keys), q.Counts[q.State]) }
