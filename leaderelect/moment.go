package leaderelect

import "time"

// moment is a time, and how long the machine had been suspended until then: package time does not count that.
type moment struct {
	time.Time
	asleep time.Duration // for the beginning of a count at least, for its end at most
}

// sleepNoise is what two readings of the clocks may differ by without a suspend, which takes longer.
const sleepNoise = 5 * time.Millisecond

// beginning returns the present, as the beginning of a count.
func beginning() moment {
	least, _ := asleep() // first: a suspend in between counts
	return moment{time.Now(), least}
}

// present returns the present, as the end of a count.
func present() moment {
	now := time.Now()
	_, most := asleep()
	return moment{now, most}
}

// slept returns how long the machine was suspended between m and now.
func (m moment) slept(now moment) time.Duration {
	if d := now.asleep - m.asleep; d >= sleepNoise {
		return d
	}
	return 0
}

// left returns how much time is left, at now, of d that began at m. It is negative when d is over.
func (m moment) left(d time.Duration, now moment) time.Duration {
	return d - now.Sub(m.Time) - m.slept(now)
}
