package informer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestResyncIsMarkedUnlessMergedWithChange(t *testing.T) {
	for _, every := range []bool{false, true} {
		t.Run(fmt.Sprint("every event ", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				for _, name := range []string{"a", "b", "c"} {
					src.Put(site{Name: name})
				}
				in := must(informer.New(src, nameOf, informer.Config{}))
				var told []string
				gate := make(chan struct{})
				_, err := in.AddHandler(informer.Handler[string, site]{
					ResyncPeriod: time.Hour, EveryEvent: every,
					OnAdd: func(s site, _ bool) { told = append(told, "add "+s.Name) },
					OnUpdate: func(old, new site) {
						told = append(told, fmt.Sprint("update ", new.Name, " ", old.Rev, new.Rev))
						<-gate
					},
					OnResync: func(s site) { told = append(told, fmt.Sprint("resync ", s.Name, " ", s.Rev)) },
				})
				require.NoError(t, err)
				sitetest.Start(t, in)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.ElementsMatch(t, []string{"add a", "add b", "add c", "resync a 0", "resync b 0", "resync c 0"}, told)

				told = nil
				src.Put(site{Name: "c", Rev: 1}) // keeps the handler busy
				synctest.Wait()
				src.Put(site{Name: "a", Rev: 2}) // before the resync
				time.Sleep(time.Hour)
				synctest.Wait()
				src.Put(site{Name: "b", Rev: 3}) // after it
				synctest.Wait()
				close(gate)
				synctest.Wait()
				if every {
					assert.Equal(t, []string{"update c 0 1", "update a 0 2"}, told[:2])
					assert.ElementsMatch(t, []string{"resync a 2", "resync b 0", "resync c 1"}, told[2:5])
					assert.Equal(t, []string{"update b 0 3"}, told[5:])
				} else {
					assert.Equal(t, "update c 0 1", told[0])
					assert.ElementsMatch(t, []string{"update a 0 2", "update b 0 3", "resync c 1"}, told[1:])
				}
			})
		})
	}
}
