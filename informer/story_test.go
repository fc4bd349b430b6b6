package informer_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

// story is a world whose handlers are held up, so that each step meets them where the steps before have left them.
type story struct {
	*world
	missing bool // the source is unreachable
}

// step is one line of a story. possible is false for one that would do nothing.
type step struct {
	name     string
	possible func(*story) bool
	do       func(*story)
}

var steps = []step{
	{"put a", nil, func(s *story) { s.put("a") }},
	{"delete a", func(s *story) bool { return s.truth["a"] != site{} }, func(s *story) { s.delete("a") }},
	{"put b", nil, func(s *story) { s.put("b") }},
	{"delete b", func(s *story) bool { return s.truth["b"] != site{} }, func(s *story) { s.delete("b") }},
	{"the first handler returns", func(s *story) bool { return s.recorders[0].isBusy() }, func(s *story) {
		s.recorders[0].gate <- struct{}{}
	}},
	{"another handler joins", func(s *story) bool { return len(s.recorders) < 2 }, func(s *story) { s.join() }},
	{"miss what follows", func(s *story) bool { return !s.missing }, func(s *story) {
		s.missing = true
		s.src.Fail(errOutage)
	}},
	{"list again", func(s *story) bool { return s.missing }, func(s *story) {
		s.missing = false
		s.src.Compact()
		s.src.Fail(nil)
		time.Sleep(2 * time.Second) // of the backoff
	}},
}

func (s *story) join() {
	r := newRecorder(s.t)
	r.gaps = s.gaps
	r.gate = make(chan struct{})
	s.recorders = append(s.recorders, r.add(s.in))
}

// tell tells a story, and returns false when one of its steps would do nothing.
func tell(t *testing.T, lines []step, gaps bool) (told bool) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{world: newWorld(t, 0, gaps)}
		s.join()
		sitetest.Start(t, s.in)
		told = true
		for _, line := range lines {
			if line.possible != nil && !line.possible(s) {
				told = false
				break
			}
			line.do(s)
			synctest.Wait()
			require.NoError(t, informer.CheckInvariants(s.in))
		}
		for _, r := range s.recorders {
			close(r.gate)
		}
		if told {
			s.settle()
		}
	})
	return told
}

func TestEveryShortStoryConverges(t *testing.T) {
	length := 4
	if os.Getenv("SCHEDULE_DEPTH") != "" {
		length = 5
	}
	stories := 0
	var grow func(lines []step, gaps bool)
	grow = func(lines []step, gaps bool) {
		if len(lines) > 0 {
			if !tell(t, lines, gaps) {
				return
			}
			stories++
		}
		if t.Failed() {
			for _, line := range lines {
				t.Log(line.name)
			}
			t.FailNow()
		}
		if len(lines) == length {
			return
		}
		for _, line := range steps {
			grow(append(lines[:len(lines):len(lines)], line), gaps || line.name == "miss what follows")
		}
	}
	grow(nil, false)
	t.Log(stories, "stories")
}
