package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plan has the faults of one run, each of which happens once.
type Plan []Fault

// String returns the text of the plan, such as "crash-after(rmq update sts/a#1)".
func (p Plan) String() string {
	texts := make([]string, len(p))
	for i, f := range p {
		texts[i] = f.String()
	}
	return strings.Join(texts, " ")
}

// Skips reports whether the user leaves out the step with this number, counted from 1.
func (p Plan) Skips(step int) bool {
	return slices.ContainsFunc(p, func(f Fault) bool { return f.Do == Skip && f.Nth == step })
}

// Skipped returns the steps that the user leaves out: the plan without its faults.
func (p Plan) Skipped() (skips Plan) {
	for _, f := range p {
		if f.Do == Skip {
			skips = append(skips, f)
		}
	}
	return skips
}

// The kinds of faults. Every one of these happens to real systems, and the contracts of this library allow each of them.
const (
	CrashBefore = "crash-before" // the process ends right before a write or an effect; a new one starts
	CrashAfter  = "crash-after"  // the process ends right after a write or an effect; a new one starts
	Down        = "down"         // like crash-after, and the new process starts after the next step of the user
	LoseRequest = "lose-request" // the call fails with ErrLost, and has done nothing
	LoseReply   = "lose-reply"   // the call fails with ErrLost, and has done its work
	Conflict    = "conflict"     // another writer writes the object right before
	Slow        = "slow"         // the call takes a minute, and everything else goes on
	Pause       = "pause"        // the process hangs for eleven minutes before a call or a read, and everything else goes on
	Zombie      = "zombie"       // the process hangs; a new one takes over; then the old one finishes its reconcile
	LoseLease   = "lose-lease"   // the process loses its lease and does not know; a new one takes over; both go on
	Regain      = "regain"       // the process loses its lease, and learns of it; then it leads again; its call arrives after that
	Late        = "late"         // the process ends while an effect is on its way, which arrives when a new one has taken over
	Cold        = "cold"         // like crash-after; in the new process, the controllers that watch a kind begin last
	Lag         = "lag"          // from this write on, the caches of a kind receive nothing until nothing else is left to do
	Travel      = "travel"       // like crash-after; the caches of the new process begin in the past, and then catch up
	Gap         = "gap"          // a watch breaks between two changes of an object, and a new list merges them
	ReadFails   = "read-fails"   // a read of the store fails
	Restart     = "restart"      // the process ends, and a new one starts, after a step of the user
	Skip        = "skip"         // the user leaves out a step; it makes a plan smaller, and is not a fault
)

// Fault is one thing that goes wrong, once.
type Fault struct {
	Do     string // one of the constants
	System string

	// Op, Object, and Nth give the position: at the Nth "update" of "sts/a" by the system, counted from 1. For a Gap, Object is the one
	// whose changes are merged, Nth is the first of these changes, and Op is empty. For a Restart and a Skip, Nth is the step, and Op and
	// Object are empty. For a Skip, System is empty too.
	Op, Object string
	Nth        int

	// Kind is the kind whose caches lag, or whose controllers begin last.
	Kind string

	// N is how many commits the caches go back in a Travel, or the last change that a Gap merges. For a Late effect, N is how many times
	// nothing is left to do before it arrives: 1 is within the step of the user, 2 is after the next.
	N int
}

// String returns the text of the fault.
func (f Fault) String() string {
	if f.Do == Skip {
		return fmt.Sprintf("%s(step#%d)", f.Do, f.Nth)
	}
	words := []string{quote(f.System)}
	at := quote(f.Object) + "#" + strconv.Itoa(f.Nth)
	switch f.Do {
	case Restart:
		words = append(words, "step#"+strconv.Itoa(f.Nth))
	case Gap:
		words = append(words, at, "to", strconv.Itoa(f.N))
	default:
		words = append(words, f.Op, at)
	}
	switch f.Do {
	case Travel:
		words = append(words, "back", strconv.Itoa(f.N))
	case Late:
		words = append(words, "by", strconv.Itoa(f.N))
	case Lag, Cold:
		words = append(words, "of", quote(f.Kind))
	}
	return f.Do + "(" + strings.Join(words, " ") + ")"
}

// quote returns s, in quotes if it has a character that separates words.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, "\"# ()`\\\n\t") {
		return strconv.Quote(s)
	}
	return s
}

// Parse returns the plan with the given text. An error names the fault that cannot be read.
func Parse(text string) (Plan, error) {
	var plan Plan
	for rest := strings.TrimSpace(text); rest != ""; {
		do, args, ok := strings.Cut(rest, "(")
		if !ok {
			return nil, fmt.Errorf("simtest: parse plan: %q has no arguments", rest)
		}
		words, after, err := scan(args)
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

// scan splits text into words, up to the closing parenthesis. A word is quoted text, a "#", or anything else up to one of those
// or a space.
func scan(text string) (words []string, after string, err error) {
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

// forms are the words of each fault: s is the system, o the operation, x the object, n a number, m another, k a kind.
var forms = map[string]string{
	CrashBefore: "s o x # n", CrashAfter: "s o x # n", Down: "s o x # n", LoseRequest: "s o x # n", LoseReply: "s o x # n",
	Conflict: "s o x # n", Slow: "s o x # n", Pause: "s o x # n", Zombie: "s o x # n", LoseLease: "s o x # n", Regain: "s o x # n",
	Late: "s o x # n by m", ReadFails: "s o x # n",
	Lag: "s o x # n of k", Cold: "s o x # n of k", Travel: "s o x # n back m", Gap: "s x # n to m", Restart: "s step # n",
	Skip: "step # n",
}

func parseFault(do string, words []string) (Fault, error) {
	f := Fault{Do: do}
	form := strings.Fields(forms[do])
	if len(form) == 0 {
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
			f.Nth, err = number(word)
		case "m":
			f.N, err = number(word)
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

func number(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a positive number", word)
	}
	return n, nil
}
