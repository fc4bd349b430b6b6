package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Visible returns text in which everything that does not print, or that changes the direction, is escaped as in a Go string.
func Visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Short is visible for a list: the first part of a long text, and its length.
func Short(text string) string {
	const most = 120
	if len(text) <= most {
		return Visible(text)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return Visible(text[:cut]) + "… (" + Count(len(text)) + " bytes)"
}

// Number is Count of any integer. It returns other values as fmt prints them.
func Number(n any) string {
	switch n := n.(type) {
	case int:
		return Count(n)
	case int64:
		return Count(int(n))
	case uint64:
		digits := strconv.FormatUint(n, 10)
		return separated(digits)
	}
	return fmt.Sprint(n)
}

// Count returns n with separators.
func Count(n int) string {
	if n < 0 {
		return "-" + separated(strconv.Itoa(n)[1:])
	}
	return separated(strconv.Itoa(n))
}

func separated(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Seconds is Span of a number of seconds.
func Seconds(s float64) string { return Span(time.Duration(s * float64(time.Second))) }

// Span returns a duration in at most two units.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%s days", Count(int(d.Hours()/24)))
}

// Times returns n as text: "once", "2 times", and so on.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return Count(n) + " times"
}
