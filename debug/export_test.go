package debug

import "time"

// EmptyPages returns a page of each kind, without content.
func EmptyPages() []any {
	return []any{overview{}, queuePage{}, keyPage{}, findPage{}, informerPage{}, confirmPage{}}
}

type (
	Point   = point
	Line    = line
	Samples = samples
)

const SamplePeriod = samplePeriod

func (s *samples) Due(now time.Time) bool     { return s.due(now) }
func (s *samples) Add(round map[string]point) { s.add(round) }
func (s *samples) Get(name string) []point    { return s.get(name) }
func Draw(points []point, now time.Time) line { return draw(points, now) }

func Rates(points []point) []point { return rates(points) }

func WithoutKey(message, key string) string { return withoutKey(message, key) }

func Visible(text string) string  { return visible(text) }
func Short(text string) string    { return short(text) }
func Number(n any) string         { return number(n) }
func Seconds(s float64) string    { return seconds(s) }
func Span(d time.Duration) string { return span(d) }
func Times(n int) string          { return times(n) }
