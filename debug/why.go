package debug

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
)

// situation is the state of a controller, as far as it decides about all its keys.
type situation struct {
	stats     controller.Stats
	managed   *manager.PartStats // nil if the manager does not run the controller
	informers int
	unsynced  []string       // informers
	unread    []string       // sentences that say which informers cannot read the object of the key
	elections []electionView // of the manager
	slot      *slotView      // of the key; nil if it has none
	slots     int            // of the manager
}

// situationOf returns the situation of c and the slot of a key.
func situationOf(ps parts, c aController, key string) situation {
	at := situation{stats: c.Stats()}
	slot, shared := c.Inspect().Slot(key)
	for _, s := range c.Informers() {
		at.informers++
		if in, ok := s.(anInformer); ok && !in.HasSynced() {
			at.unsynced = append(at.unsynced, s.Name())
		}
		if text := (cached{s.Name(), s}).unreadText(key); text != "" {
			at.unread = append(at.unread, text)
		}
	}
	for _, p := range ps.all {
		switch {
		case p.managed == nil:
		case same(p.value, c):
			at.managed = p.managed
		case p.managed.Kind == "election":
			switch v := p.value.(type) {
			case anElector:
				at.elections = append(at.elections, electionOf(p.name, v))
			case someSlots:
				if s := slotsOf(p.name, v); shared && slot < len(s.Slots) {
					at.slot, at.slots = &s.Slots[slot], len(s.Slots)
				}
			}
		}
	}
	return at
}

// mostSentences is the maximum number of sentences about children.
const mostSentences = 3

// explain returns sentences that say why the key is not done.
func (k *keyPage) explain(at situation) (why []string) {
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if !k.Running {
		say("%s", at.absence(k.Now))
	}
	if k.QueuePaused {
		say("The whole controller is paused.")
	}
	if text := at.elsewhere(k.Now); text != "" {
		say("%s", text)
	}
	if text := k.state(at); text != "" {
		say("%s", text)
	}
	v := k.Key
	if v.Paused && v.State != stateHeld && v.State != statePaused {
		say("It was paused %s ago: no new reconcile of it will start.", span(k.Now.Sub(v.PausedSince)))
	}
	for _, text := range at.unread {
		say("%s", text)
	}
	if last := v.Last(); last != "" {
		say("The last reason: %s", last)
	}
	troubled := append(trouble(k.Tree, false, true), trouble(k.Tree, false, false)...)
	for _, child := range troubled[:min(mostSentences, len(troubled))] {
		say("%s", child.trouble())
	}
	if n := len(troubled) - mostSentences; n > 0 {
		say("Other children that are parked or fail: %s.", count(n))
	}
	return why
}

// state returns what the state of the key means, or "" if it means nothing.
func (k *keyPage) state(at situation) string {
	v, now := k.Key, k.Now
	switch v.State {
	case stateInFlight:
		text := fmt.Sprintf("A worker has been reconciling it for %s. This is attempt %d.", span(now.Sub(v.Since)), max(1, v.Attempt))
		if v.Dirty {
			text += " It was added again in the meantime, so it will be reconciled once more."
		}
		return text
	case stateReady:
		return fmt.Sprintf("It has been ready for %s, and waits for a worker.", span(now.Sub(v.Since))) + at.wait(now.Sub(v.Since))
	case stateHeld:
		return v.hold(now)
	case stateDelayed:
		switch {
		case !v.QuietUntil.IsZero() && (v.Next.IsZero() || v.QuietUntil.Before(v.Next)):
			return fmt.Sprintf("It changes often. It will be ready in %s, if it stays quiet.", span(v.QuietUntil.Sub(now)))
		case v.Failures > 0:
			return fmt.Sprintf("It failed %s, and will be retried in %s.", times(v.Failures), span(v.Next.Sub(now)))
		}
		return fmt.Sprintf("It will be reconciled again in %s, as its last reconcile requested.", span(v.Next.Sub(now)))
	case stateParked:
		return fmt.Sprintf("It was given up %s ago. Only a change or a retry brings it back.", span(now.Sub(v.Since)))
	case statePaused:
		return fmt.Sprintf("It was paused %s ago. If it is added, it is held until it is resumed.", span(now.Sub(v.PausedSince)))
	}
	switch {
	case !k.Running || at.elsewhere(now) != "":
		return "" // another replica may be reconciling it
	case len(at.unread) > 0:
		return ""
	case len(k.Objects) == 0 && at.informers > 0:
		return "Nothing to do: no cache of this controller has an object with this key."
	}
	return "Nothing to do: there has been no change since its last reconcile."
}

// elsewhere returns which replica reconciles a key that this one does not, or "".
func (at situation) elsewhere(now time.Time) string {
	switch s := at.slot; {
	case s == nil || s.Here:
		return ""
	case s.Owner == "":
		return fmt.Sprintf("Slot %d of %d, which holds this key, has no owner that this replica knows of.", s.Slot, at.slots)
	default:
		return fmt.Sprintf("Slot %d of %d, which holds this key, has belonged to %s%s. That replica reconciles it.",
			s.Slot, at.slots, describe(s.owner), s.owner.ledFor(now))
	}
}

// ledFor returns for how long l has led, or "" if its record does not say.
func (l leaderView) ledFor(now time.Time) string {
	if l.Since.IsZero() {
		return ""
	}
	return " for " + span(now.Sub(l.Since))
}

// hold returns what holds a held key, and since when.
func (v *keyView) hold(now time.Time) string {
	held := span(now.Sub(v.Since))
	switch {
	case v.HeldBy == "pause":
		return fmt.Sprintf("It was paused %s ago, and has been due for %s. It will be reconciled after it is resumed.",
			span(now.Sub(v.PausedSince)), held)
	case v.HeldBy == "drain":
		return fmt.Sprintf("It has been held for %s, because the controller drains. The next run reconciles it.", held)
	case v.HeldBy == "next run":
		return fmt.Sprintf("A store refused its write %s ago, because another replica leads. The next run reconciles it.", held)
	}
	if cache, ok := strings.CutPrefix(v.HeldBy, "unread "); ok {
		return fmt.Sprintf("It has been held for %s, because its object cannot be read into the cache %s. It will be reconciled when the object "+
			"is repaired or deleted.", held, cache)
	}
	text := fmt.Sprintf("It has waited for the %s for %s: not all effects of its last reconcile have been seen.", v.HeldBy, held)
	if cache, ok := strings.CutPrefix(v.HeldBy, "cache "); ok {
		text = fmt.Sprintf("It has waited for %s until the cache %s shows the writes of its last reconcile.", held, cache)
	}
	if !v.HeldUntil.IsZero() {
		text += fmt.Sprintf(" It waits for at most another %s.", span(v.HeldUntil.Sub(now)))
	}
	return text
}

// wait returns why a key that has been ready for some time has no worker, or "".
func (at situation) wait(ready time.Duration) string {
	busy, workers := at.stats.Queue.InProcess, at.stats.Workers
	switch {
	case !at.stats.Running || at.stats.Paused:
		return ""
	case at.stats.TakingOver > 0:
		return fmt.Sprintf(" Its controller has waited for %s until its caches show everything from before this replica led. A transaction that stays "+
			"open holds them up, or their sources do not answer.", span(at.stats.TakingOver))
	case busy >= workers:
		return fmt.Sprintf(" %s of %s workers are busy, the longest for %s.", count(busy), count(workers), span(at.stats.Queue.LongestRunning))
	case ready > time.Second: // otherwise a worker may be about to take it
		return fmt.Sprintf(" Only %s of %s workers are busy: a limit of its group or of the queue delays it.", count(busy), count(workers))
	}
	return ""
}

// absence returns why a controller does not run.
func (at situation) absence(now time.Time) string {
	if at.managed == nil {
		return "The controller is not running."
	}
	switch at.managed.State {
	case "backing off":
		return fmt.Sprintf("The controller has failed, and will be started again: %v", at.managed.Err)
	case "stopping":
		return "The controller is stopping."
	}
	if len(at.unsynced) > 0 {
		return fmt.Sprintf("The controller is not running yet: it waits for the first list of %s.", strings.Join(at.unsynced, ", "))
	}
	for _, e := range at.elections {
		switch {
		case e.Leading:
		case e.Leader == nil:
			return "It is not reconciled: no replica leads."
		default:
			return "This replica does not lead. According to the lease, " + describe(*e.Leader) + " has led" + e.Leader.ledFor(now) + ", and reconciles it."
		}
	}
	return "The controller is not running yet: it waits for its turn to start."
}

// replica returns the metadata of the other replica that reconciles the key, or nothing.
func (at situation) replica() (values []string) {
	var metadata map[string]string
	if at.slot != nil && !at.slot.Here {
		metadata = at.slot.owner.Metadata
	}
	for _, e := range at.elections {
		if !e.Leading && e.Leader != nil && !at.stats.Running {
			metadata = e.Leader.Metadata
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		values = append(values, metadata[name])
	}
	return values
}

// describe returns the name of a replica, and its metadata.
func describe(l leaderView) string {
	var more []string
	for _, name := range slices.Sorted(maps.Keys(l.Metadata)) {
		more = append(more, name+" "+l.Metadata[name])
	}
	if len(more) == 0 {
		return l.Identity
	}
	return fmt.Sprintf("%s (%s)", l.Identity, strings.Join(more, ", "))
}

// trouble returns the objects below the one that the page shows that are parked, or, if parked is false, those that fail.
func trouble(tree []treeView, below, parked bool) (found []treeView) {
	for _, v := range tree {
		if is := v.State == stateParked; below && is == parked && (is || v.failures > 0) {
			found = append(found, v)
		}
		found = append(found, trouble(v.Children, below || v.Self, parked)...)
	}
	return found
}

// trouble returns a sentence about v, which is parked or fails.
func (v treeView) trouble() string {
	text := fmt.Sprintf("Its child %s %s failed %s", v.Kind, v.Key, times(v.failures))
	if v.State == stateParked {
		text = fmt.Sprintf("Its child %s %s was given up", v.Kind, v.Key)
	}
	if v.reason != "" {
		text += ": " + v.reason
	}
	return text
}
