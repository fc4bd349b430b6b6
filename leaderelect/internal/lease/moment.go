package lease

import "time"

// Moment is a time, and how long the machine had been suspended until then: package time does not count that.
type Moment struct {
	time.Time
	Asleep time.Duration // for the beginning of a count at least, for its end at most
}

// sleepNoise is what two readings of the clocks may differ by without a suspend, which takes longer.
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

// Left returns how much time is left, at now, of d that began at m. It is negative when d is over.
func (m Moment) Left(d time.Duration, now Moment) time.Duration {
	return d - now.Sub(m.Time) - m.Slept(now)
}
