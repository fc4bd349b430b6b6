package poll_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// A poll follows every change, so that each change is a separate event.
func TestSourceKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[site] {
		var mu sync.Mutex
		var all []site
		p := must(poll.New(func(context.Context) ([]site, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all), nil
		}, nameOf, poll.Config[site]{Interval: -1}))
		change := func(name string, with ...site) error {
			mu.Lock()
			i := slices.IndexFunc(all, func(s site) bool { return s.Name == name })
			if i < 0 {
				all = append(all, with...)
			} else {
				all = slices.Replace(all, i, i+1, with...)
			}
			mu.Unlock()
			_, err := p.List(context.Background())
			return err
		}
		return informertest.Subject[site]{
			Source:   p,
			Put:      func(name string, rev int) error { return change(name, site{Name: name, Rev: rev}) },
			Delete:   func(name string) error { return change(name) },
			Read:     func(s site) (string, int) { return s.Name, s.Rev },
			History:  1,
			Bookmark: func() error { p.Nudge(); return nil },
		}
	})
}
