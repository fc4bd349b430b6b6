package debug

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// visible returns text in which everything that does not print, or that changes the direction, is escaped as in a Go string.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// short is visible for a list: the first part of a long text, and its length.
func short(text string) string {
	const most = 120
	if len(text) <= most {
		return visible(text)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return visible(text[:cut]) + "… (" + count(len(text)) + " bytes)"
}

// number is count of any integer. It returns other values as fmt prints them.
func number(n any) string {
	switch n := n.(type) {
	case int:
		return count(n)
	case int64:
		return count(int(n))
	case uint64:
		digits := strconv.FormatUint(n, 10)
		return separated(digits)
	}
	return fmt.Sprint(n)
}

// count returns n with separators.
func count(n int) string {
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

// seconds is span of a number of seconds.
func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// span returns a duration in at most two units.
func span(d time.Duration) string {
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
	return fmt.Sprintf("%s days", count(int(d.Hours()/24)))
}

// counted returns n and what it counts.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// address returns text, if it is the URL of a web page, and otherwise "".
func address(text string) string {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return text
}

// times returns n as text: "once", "2 times", and so on.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return count(n) + " times"
}
