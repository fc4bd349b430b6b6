package debug_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/debug/internal/scene"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
)

// A screen reader lists the headings of a page, and reads the header of a cell.
func TestEveryPageHasHeadingsAndTableScopes(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		heading, id := regexp.MustCompile(`<h([1-6])[ >]`), regexp.MustCompile(` id="([^"]*)"`)
		table := regexp.MustCompile(`(?s)<table[^>]* aria-labelledby="([^"]*)".*?<tbody>(.*?)</tbody>`)
		for _, target := range []string{
			"", "queue?name=sites", "queue?name=sites&q=sites/quito", "informer?name=sites", "key?queue=sites&key=sites/quito",
			"key?informer=servers&key=lisbon/server-0", "find?key=sites/quito", "find", "confirm?queue=sites&action=resync",
		} {
			page := read(t, s.Page, target)
			last := 0
			for _, m := range heading.FindAllStringSubmatch(page, -1) {
				level := int(m[1][0] - '0')
				assert.LessOrEqual(t, level, last+1, "%q: a level is left out", target)
				last = level
			}
			assert.Equal(t, 1, strings.Count(page, "<h1"), target)
			assert.Equal(t, strings.Count(page, "<th "), strings.Count(page, "<th scope="), target)
			assert.NotContains(t, page, "<th>", target)
			for _, m := range table.FindAllStringSubmatch(page, -1) {
				if m[1] != "events" && m[1] != "errors" && m[1] != "history" { // their rows have no name
					assert.Equal(t, strings.Count(m[2], "<tr>"), strings.Count(m[2], `<th scope="row"`), "%q: each row of %s has a header", target, m[1])
					assert.Contains(t, m[2], "<tr>")
				}
			}
			ids := make(map[string]bool)
			for _, m := range id.FindAllStringSubmatch(page, -1) {
				assert.False(t, ids[m[1]], "%q: %s is there twice", target, m[1])
				ids[m[1]] = true
			}
			names := regexp.MustCompile(`<table[^>]* aria-labelledby="([^"]*)"`).FindAllStringSubmatch(page, -1)
			assert.Len(t, names, strings.Count(page, "<table"), "%q: each table has a name", target)
			for _, m := range names {
				assert.True(t, ids[m[1]], "%q: no heading %s", target, m[1])
			}
		}
	})
}

func TestLongKeysWrap(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene.Scene) {
		style := read(t, s.Page, "page.css")
		for selector, of := range map[string]string{
			"h1": "the page of a key", ".key": "lists and events", "dd": "facts", "th[scope=row]": "tables", ".node": "the tree", ".why p": "sentences",
		} {
			rule := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(selector) + ` \{[^}]*overflow-wrap: anywhere`)
			assert.Regexp(t, rule, style, of)
		}
		assert.Contains(t, read(t, s.Page, ""), `<td class="key mono">Site <a href=`)
	})
}

func TestChartHasTitleAxesAndSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{})
		require.NoError(t, m.Add(manager.At(manager.Outer, h)))
		running(t, m)
		c.Pause()
		for i := range 1200 {
			c.Add(fmt.Sprint(i))
		}
		time.Sleep(9 * time.Second) // between two samples
		c.Resume()
		time.Sleep(10 * time.Second)
		for _, target := range []string{"", "queue?name=sites"} {
			page := read(t, h, target)
			assert.Contains(t, page, "<figcaption>Ready keys</figcaption>", target)
			assert.Contains(t, page, "<title>Ready keys, the last five minutes, at most 1,200</title>", target)
			assert.Contains(t, page, "<span>1,200</span><span>0</span>", target)
			assert.Contains(t, page, "<span>5 min ago</span><span>now</span>", target)
			assert.Contains(t, page, "<figcaption>Done per minute</figcaption>", target)
			assert.Contains(t, page, "at most 36,000</title>", "1,200 within the two seconds between samples")
		}
		depth := step(step(step(readJSON(t, h, ""), "queues"), "0"), "depth").([]any)
		assert.Equal(t, "1200", at(depth[len(depth)-1], "done"))
	})
}

func TestPageOfKeyShowsLastSuccessDurationAndHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		c, m, h := plain(t, manager.Config{}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(3 * time.Second)
			if fails.Load() {
				return controller.Result{}, retry.After(errors.New("status 503"), time.Hour)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{})
		running(t, m)
		const target = "key?queue=sites&key=berlin"
		assert.Contains(t, read(t, h, target), "None of this key is among the latest of this controller.")
		for range 25 {
			c.Add("berlin")
			time.Sleep(10 * time.Second)
		}
		fails.Store(true)
		c.Add("berlin")
		time.Sleep(5 * time.Second)
		page, v := read(t, h, target), readJSON(t, h, target)
		assert.Contains(t, page, "<dt>Last success</dt><dd>12 s ago</dd>")
		assert.Contains(t, page, "<dt>Last duration</dt><dd>3.0 s</dd>")
		assert.Contains(t, page, `<td class="dim nowrap">2.0 s ago</td><td>failed</td><td class="n">3.0 s</td><td class="n">1</td><td class="reason">status 503</td>`)
		assert.Len(t, v["history"], 20)
		assert.Equal(t, "failed 3 status 503", at(v, "history.0.outcome")+" "+at(v, "history.0.durationSeconds")+" "+at(v, "history.0.error"))
		assert.Equal(t, "succeeded", at(v, "history.1.outcome"))
		assert.Equal(t, at(v, "history.1.at"), at(v, "lastSuccess"))
	})
}

func TestRatesArePerMinuteAndSkipGaps(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(after time.Duration, done uint64) debug.Point {
		return debug.Point{At: began.Add(after), Done: done}
	}
	rate := func(after time.Duration, n int) debug.Point { return debug.Point{At: began.Add(after), Ready: n} }
	assert.Equal(t, []debug.Point{rate(2*time.Second, 300), rate(4*time.Second, 0), rate(64*time.Second, 30)}, debug.Rates([]debug.Point{
		at(0, 5), at(2*time.Second, 15), at(4*time.Second, 15),
		at(60*time.Second, 100), at(64*time.Second, 102), // after a gap
		at(66*time.Second, 0), // another part with the same name
	}))
	assert.Empty(t, debug.Rates(nil))
}
