package lease

import "time"

// Moment is a time, together with how long the machine was suspended before. Package time does not count suspends.
type Moment struct {
	time.Time
	Asleep time.Duration // the lower bound at the beginning of a count, the upper bound at its end
}

// sleepNoise is how much two readings of the clocks may differ without a suspend. A suspend takes longer.
const sleepNoise = 5 * time.Millisecond

// Beginning returns the present, as the beginning of a count.
func Beginning() Moment {
	least, _ := Asleep() // first: a suspend in between counts
	return Moment{time.Now(), least}
}

// Present returns the present, as the end of a count.
func Present() Moment {
	now := time.Now()
	_, most := Asleep()
	return Moment{now, most}
}

// Slept returns how long the machine was suspended between m and now.
func (m Moment) Slept(now Moment) time.Duration {
	if d := now.Asleep - m.Asleep; d >= sleepNoise {
		return d
	}
	return 0
}

// Left returns the rest of a duration d that began at m. It is negative after the end of d.
func (m Moment) Left(d time.Duration, now Moment) time.Duration {
	return d - now.Sub(m.Time) - m.Slept(now)
}
