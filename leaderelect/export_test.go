package leaderelect

import "time"

// StopTimer does to the leadership what a pause of the process does: no timer is served.
func (l *Leadership) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Stop()
}

// FireTimer serves the timer, as it may be served when it has just been set anew.
func (l *Leadership) FireTimer() { l.expire() }

// Suspend does to the leadership what a suspend of the machine does: time passes that package time does not count.
func (l *Leadership) Suspend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent.asleep -= d
}

// Asleep returns how long the machine was suspended, between two bounds.
func Asleep() (least, most time.Duration) { return asleep() }

// Plan says who should own each slot.
func Plan(owners, members []int, declines func(slot, member int) bool) []int {
	return plan(owners, members, declines)
}

// SlotOf returns the slot of a key.
func SlotOf(key string, slots int) int { return slotOf(key, slots) }

// Rank says how high a member ranks for a slot.
func Rank(slot, member int) uint64 { return rank(slot, member) }

// Revoke is what Slots do to the elector of a slot that another is to own, and Admit undoes it.
func (e *Elector) Revoke(successor string) { e.revoke(successor) }
func (e *Elector) Admit()                  { e.admit() }

// OnStep has a function called between any two steps of a call of s.
func (s *FileStore) OnStep(f func(step string)) { s.step = f }

// KeyOfFileName is the reverse of the name that a key has in a FileStore.
func KeyOfFileName(name string) (string, bool) { return keyOfFileName(name) }
