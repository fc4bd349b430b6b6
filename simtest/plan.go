package simtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plan has the faults of one run, each of which happens once. The flag -simtest.plan takes the text of a plan.
type Plan []Fault

// String returns the text of the plan, such as "crash-after(rmq update sts/a#1)".
func (p Plan) String() string {
	texts := make([]string, len(p))
	for i, f := range p {
		texts[i] = f.String()
	}
	return strings.Join(texts, " ")
}

// skips reports whether the user leaves out the step with this number, counted from 1.
func (p Plan) skips(step int) bool {
	return slices.ContainsFunc(p, func(f Fault) bool { return f.Do == faultSkip && f.Nth == step })
}

// faults returns the faults of the plan, without the steps that the user leaves out.
func (p Plan) faults() Plan {
	return slices.DeleteFunc(slices.Clone(p), func(f Fault) bool { return f.Do == faultSkip })
}

// skipped returns the steps that the user leaves out: the plan without its faults.
func (p Plan) skipped() (skips Plan) {
	for _, f := range p {
		if f.Do == faultSkip {
			skips = append(skips, f)
		}
	}
	return skips
}

// Fault is one thing that goes wrong, once. Every one of these faults happens to real systems, and the contracts of this library allow each
// of them:
//
//	crash-before  the process ends right before a write or an effect; a new one starts, with empty caches
//	crash-after   the process ends right after a write or an effect; a new one starts
//	down          like crash-after, and the new process starts after the next step of the user
//	restart       the process ends, and a new one starts, after a step of the user
//	lose-request  the call fails with ErrLost, and has done nothing
//	lose-reply    the call fails with ErrLost, and has done its work
//	conflict      another writer writes the object right before the write
//	slow          the call takes a minute, while everything else goes on
//	pause         the process hangs for eleven minutes before a call or a read, while everything else goes on
//	zombie        the process hangs; a new one takes over; then the old one finishes its reconcile
//	lose-lease    the process loses its lease without noticing; a new one takes over; both go on until the old one notices: 10 s
//	              later, or after the next step of the user
//	regain        the process loses its lease, notices it, and stands by; when its successor ends, it leads again, with the next term and
//	              all that it remembers; its call of the former term arrives after the next step of the user
//	move          the slot of the reconcile has to go to the next replica, which gets it when the reconcile has returned, and whose caches of a
//	              kind receive nothing from before this write on, until nothing else is left to do; for systems with Slots
//	late          the process ends while an effect is on its way, which arrives when a new one has taken over
//	cold          like crash-after; in the new process, the controllers that watch a kind begin when nothing else is left to do: the
//	              state that they fill, such as a map, is empty while the others act
//	lag           from this write on, the caches of a kind receive nothing until nothing else is left to do
//	travel        like crash-after; the caches of the new process begin in the past, and then catch up
//	gap           a watch breaks between two changes of an object, and a new list merges them
//	read-fails    a read of the store fails
//	early         the next step of the user comes right before a call of a reconcile
//	reorder       of several keys that are ready, the last one is reconciled first, all the time; in run mode, only if keys are strings
//
// The faults lose-lease and regain are for systems with a Lease: each process of such a system has a leadership with the next term. Without a
// Lease, a late effect arrives within the step of the user.
//
// A system with Slots is one of the replicas that share them. Those that run take over the slots of a process that ends, hangs as a zombie, or
// loses its lease, which is that of each of its slots. After a pause it still has them. With lose-lease and regain, no new process starts in its
// place: when it has noticed the loss, it goes on, with all that it remembers. After the next step of the user, when nothing else is left to do, the
// replicas share the slots equally again: those that have too many let the youngest go.
//
// In the text of a plan, skip(step#2) means that the user leaves out the second step. It makes a plan smaller, and is not a fault.
type Fault struct {
	// Do is the kind of fault, such as "crash-after".
	Do     string
	System string

	// Op, Object, and Nth give the position: at the Nth "update" of "sts/a" by the system, counted from 1. For a gap, Object is the one
	// whose changes are merged, Nth is the first of these changes, and Op is empty. For a restart and a skip, Nth is the step, and Op and
	// Object are empty. For a skip, System is empty too. A reorder has no position.
	Op, Object string
	Nth        int

	// Kind is the kind whose caches lag, also those of the next replica after a move, or whose controllers begin last.
	Kind string

	// N is how many commits the caches go back in a travel, or the last change that a gap merges; if there is no such change, the gap ends when
	// nothing else is left to do. For a late effect, N is how many times
	// nothing is left to do before it arrives: 1 is within the step of the user, 2 is after the next.
	N int
}

// The values of [Fault.Do].
const (
	faultCrashBefore = "crash-before"
	faultCrashAfter  = "crash-after"
	faultDown        = "down"
	faultLoseRequest = "lose-request"
	faultLoseReply   = "lose-reply"
	faultConflict    = "conflict"
	faultSlow        = "slow"
	faultPause       = "pause"
	faultZombie      = "zombie"
	faultLoseLease   = "lose-lease"
	faultMove        = "move"
	faultRegain      = "regain"
	faultLate        = "late"
	faultCold        = "cold"
	faultLag         = "lag"
	faultTravel      = "travel"
	faultGap         = "gap"
	faultReadFails   = "read-fails"
	faultRestart     = "restart"
	faultReorder     = "reorder"
	faultEarly       = "early"
	faultSkip        = "skip"
)

// String returns the text of the fault.
func (f Fault) String() string {
	var text strings.Builder
	text.WriteString(f.Do + "(")
	words := faultWords(f.Do)
	for i, word := range words {
		if i > 0 && word != "#" && words[i-1] != "#" {
			text.WriteString(" ")
		}
		switch word {
		case "s":
			text.WriteString(quote(f.System))
		case "o":
			text.WriteString(f.Op)
		case "x":
			text.WriteString(quote(f.Object))
		case "n":
			text.WriteString(strconv.Itoa(f.Nth))
		case "m":
			text.WriteString(strconv.Itoa(f.N))
		case "k":
			text.WriteString(quote(f.Kind))
		default:
			text.WriteString(word)
		}
	}
	return text.String() + ")"
}

// faultWords returns the words of a kind of fault: s is the system, o the operation, x the object, n a number, m another, k a kind. It
// returns nil for an unknown fault.
func faultWords(do string) []string {
	switch do {
	case faultCrashBefore, faultCrashAfter, faultDown, faultLoseRequest, faultLoseReply, faultConflict, faultSlow, faultPause, faultZombie,
		faultLoseLease, faultRegain, faultReadFails, faultEarly:
		return []string{"s", "o", "x", "#", "n"}
	case faultLag, faultCold, faultMove:
		return []string{"s", "o", "x", "#", "n", "of", "k"}
	case faultLate:
		return []string{"s", "o", "x", "#", "n", "by", "m"}
	case faultTravel:
		return []string{"s", "o", "x", "#", "n", "back", "m"}
	case faultGap:
		return []string{"s", "x", "#", "n", "to", "m"}
	case faultRestart:
		return []string{"s", "step", "#", "n"}
	case faultReorder:
		return []string{"s"}
	case faultSkip:
		return []string{"step", "#", "n"}
	}
	return nil
}

// quote returns s, in quotes if it has a character that separates words.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, "\"# ()`\\\n\t") {
		return strconv.Quote(s)
	}
	return s
}

// ParsePlan returns the plan with the given text. An error names the fault that cannot be read.
func ParsePlan(text string) (Plan, error) {
	var plan Plan
	for rest := strings.TrimSpace(text); rest != ""; {
		do, args, ok := strings.Cut(rest, "(")
		if !ok {
			return nil, fmt.Errorf("simtest: parse plan: %q has no arguments", rest)
		}
		words, after, err := scanWords(args)
		if err != nil {
			return nil, fmt.Errorf("simtest: parse plan: %s: %w", do, err)
		}
		f, err := parseFault(do, words)
		if err != nil {
			return nil, fmt.Errorf("simtest: parse plan: %s: %w", do, err)
		}
		plan = append(plan, f)
		rest = strings.TrimSpace(after)
	}
	return plan, nil
}

// scanWords splits text into words, up to the closing parenthesis. A word is quoted text, a "#", or anything else up to one of those
// or a space.
func scanWords(text string) (words []string, after string, err error) {
	for {
		text = strings.TrimLeft(text, " ")
		if text == "" {
			return nil, "", fmt.Errorf("a closing parenthesis is missing")
		}
		switch text[0] {
		case ')':
			return words, text[1:], nil
		case '#':
			words, text = append(words, "#"), text[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, "", fmt.Errorf("%q: %w", text, err)
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", quoted, err)
			}
			words, text = append(words, word), text[len(quoted):]
		default:
			end := strings.IndexAny(text, " )#\"")
			if end < 0 {
				end = len(text)
			}
			words, text = append(words, text[:end]), text[end:]
		}
	}
}

func parseFault(do string, words []string) (Fault, error) {
	f := Fault{Do: do}
	form := faultWords(do)
	if form == nil {
		return f, fmt.Errorf("there is no such fault")
	}
	if len(form) != len(words) {
		return f, fmt.Errorf("it has %d words, not %d", len(words), len(form))
	}
	for i, word := range words {
		var err error
		switch form[i] {
		case "s":
			f.System = word
		case "o":
			f.Op = word
		case "x":
			f.Object = word
		case "k":
			f.Kind = word
		case "n":
			f.Nth, err = parseNumber(word)
		case "m":
			f.N, err = parseNumber(word)
		default:
			if word != form[i] {
				err = fmt.Errorf("found %q, expected %q", word, form[i])
			}
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func parseNumber(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a positive number", word)
	}
	return n, nil
}
