package debug_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestAnyKeyIsFoundInQueuesAndCaches(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		time.Sleep(time.Second) // until the checks are done
		for _, tt := range []struct {
			key   string
			found []string // in the order of the page
		}{
			{"lisbon/server-0", []string{" servers cached key?key=lisbon%2Fserver-0&queue=checks"}}, // done, so it is in no queue
			{"sites/quito", []string{"sites  parked key?key=sites%2Fquito&queue=sites", " sites cached key?key=sites%2Fquito&queue=sites"}},
			{"quito", nil}, // part of a key
		} {
			page := read(t, s.Page, "find?key="+tt.key)
			v := readJSON(t, s.Page, "find?key="+tt.key)
			assert.Len(t, v["found"], len(tt.found), tt.key)
			for i, want := range tt.found {
				p := step(v["found"], fmt.Sprint(i))
				assert.Equal(t, want, at(p, "queue")+" "+at(p, "informer")+" "+at(p, "state")+" "+at(p, "link"))
				assert.Contains(t, page, ">"+at(p, "state")+"</span>", tt.key)
			}
			assert.Equal(t, len(tt.found) == 0, strings.Contains(page, "No queue and no cache has exactly this key."), tt.key)
		}
		assert.Contains(t, read(t, s.Page, "find?key=lisbon/server-0"), `In the cache <b>servers</b>: <a href="key?key=lisbon%2Fserver-0&amp;queue=checks">`)
		assert.Contains(t, read(t, s.Page, "find?key=sites/quito"), `In the queue <b>sites</b>`)
		for _, target := range []string{"", "key?queue=sites&key=sites/quito", "find", "queue?name=sites", "informer?name=sites"} {
			assert.Contains(t, read(t, s.Page, target), `<input id="q" type="search"`, "each page has a search, on which / sets the focus: %s", target)
		}
		assert.Contains(t, read(t, s.Page, "page.js"), `event.key !== "/"`)
	})
}

func TestQueueSearchSaysWhichCacheHasKey(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		time.Sleep(time.Second) // until the checks are done
		page := read(t, s.Page, "queue?name=checks&q=lisbon/server-0")
		assert.Contains(t, page, "No key is in this state")
		assert.Contains(t, page, `In the cache <b>servers</b>: <a href="key?key=lisbon%2Fserver-0&amp;queue=checks">`)
		v := readJSON(t, s.Page, "queue?name=sites&q=sites/quito")
		assert.Equal(t, "sites parked", at(v, "exact.0.queue")+" "+at(v, "exact.0.state"))
		assert.Equal(t, "sites cached", at(v, "exact.1.informer")+" "+at(v, "exact.1.state"))
		assert.Contains(t, read(t, s.Page, "queue?name=sites&q=quito"), "Neither the queue nor a cache of this controller has exactly this key.")
		assert.Empty(t, readJSON(t, s.Page, "queue?name=sites")["exact"])
	})
}

func TestInformerPageListsCacheAndKeysThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites, err := store.Open(db, "Site", store.Config[int]{})
		require.NoError(t, err)
		const n = 250
		for i := range n {
			_, err := sites.Create(t.Context(), store.Object[int]{Key: fmt.Sprintf("site-%03d", i)})
			require.NoError(t, err)
		}
		_, err = db.Transact(t.Context(), "Site", "broken", nil, func(backend.Record) (*backend.Record, error) {
			return &backend.Record{Meta: []byte("{}"), Value: []byte("<site/>")}, nil
		})
		require.NoError(t, err)
		seen, err := informer.New(sites, store.Key, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		assert.Contains(t, read(t, h, ""), `<a href="informer?name=cached">cached</a>`)
		first := read(t, h, "informer?name=cached")
		assert.Contains(t, first, "1 to 100 of 251")
		assert.Contains(t, first, `href="informer?name=cached&amp;page=2" rel="next"`)
		v := readJSON(t, h, "informer?name=cached&page=3")
		assert.Len(t, v["keys"], 51)
		assert.Equal(t, "site-249", at(v, "keys.50.key"))
		assert.Equal(t, "key?key=site-249&queue=sites", at(v, "keys.50.link"))
		v = readJSON(t, h, "informer?name=cached&page=9")
		assert.Equal(t, "3 site-199", at(v, "page")+" "+at(v, "keys.0.key"), "the last page")
		v = readJSON(t, h, "informer?name=cached")
		assert.Equal(t, "broken", at(v, "keys.0.key"))
		assert.Contains(t, at(v, "keys.0.unreadError"), "the record does not decode")
		v = readJSON(t, h, "informer?name=cached&q=24")
		assert.Equal(t, "13", at(v, "total"))
		assert.Equal(t, "unread", at(readJSON(t, h, "find?key=broken"), "found.0.state"))
		assert.Contains(t, at(readJSON(t, h, "key?informer=cached&key=broken"), "why.0"), "The cache cached cannot read its object")
		assert.Contains(t, read(t, h, "key?informer=cached&key=broken"), "The cache cached cannot read its object")
		assert.Equal(t, http.StatusNotFound, ask(h, http.MethodGet, "informer?name=nobody", nil).StatusCode)
	})
}

func TestInformerPageShowsWhyRecordsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := informer.New(lacking{}, func(site string) string { return site }, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		assert.Contains(t, at(readJSON(t, h, "informer?name=cached"), "missingError"), "a record without a key")
		assert.Contains(t, read(t, h, "informer?name=cached"), "a record without a key")
	})
}

func TestEventsLinkToTheirObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mirrored(t, store.Object[string]{Key: "a"})
		h, err := debug.New(m, debug.Config{Logger: quiet})
		require.NoError(t, err)
		log, err := events.NewRecorder(events.Config{})
		require.NoError(t, err)
		require.NoError(t, h.Add("events", log))
		running(t, m)
		log.Normal(store.Ref{Kind: "Secret", Key: "a"}, "Known", "Its cache is known.")
		time.Sleep(time.Second)
		log.Normal(store.Ref{Kind: "Moon", Key: "b"}, "Unknown", "No cache has its kind.")
		v := readJSON(t, h, "")
		assert.Equal(t, "find?key=b", at(v, "events.0.link"))
		assert.Equal(t, "key?key=a&queue=secrets", at(v, "events.1.link"))
		assert.Contains(t, read(t, h, ""), `Secret <a href="key?key=a&amp;queue=secrets">a</a>`)
		assert.Contains(t, read(t, h, ""), `Moon <a href="find?key=b">b</a>`)
	})
}

var errNoKey = errors.New("a record without a key")

// lacking is a source that lists one site, and one record whose key cannot be read.
type lacking struct{}

func (lacking) List(context.Context) (informer.List[string], error) {
	return informer.List[string]{Version: 1, Items: []string{"berlin"}, Missing: []error{errNoKey}}, nil
}

func (lacking) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[string], error] {
	return func(func(informer.Event[string], error) bool) { <-ctx.Done() }
}
