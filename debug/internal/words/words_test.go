package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/debug/internal/words"
)

func TestVisibleEscapesWhatDoesNotPrint(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain \"text\"": "plain \"text\"", "a\nb": `a\nb`, "\u202eevil": `\u202eevil`, "\xff": `\xff`, "\ufffd": "\ufffd", "é": "é",
		`a\b`: `a\b`, // nothing in it needs an escape
	} {
		if got := words.Visible(text); got != want {
			t.Errorf("words.Visible(%q) = %q, want %q", text, got, want)
		}
	}
	long := words.Short(strings.Repeat("k", 119) + "é and more")
	if want := strings.Repeat("k", 119) + "… (130 bytes)"; long != want {
		t.Errorf("long = %q, want %q: a letter is not cut in half", long, want)
	}
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("k", 120): strings.Repeat("k", 120), strings.Repeat("k", 121): strings.Repeat("k", 120) + "… (121 bytes)",
		strings.Repeat("\x80", 121): strings.Repeat(`\x80`, 116) + "… (121 bytes)", // no letter begins anywhere
	} {
		if got := words.Short(text); got != want {
			t.Errorf("words.Short(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestNumbersHaveSeparators(t *testing.T) {
	for n, want := range map[any]string{
		0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", int64(4321): "4,321", uint64(1) << 63: "9,223,372,036,854,775,808", "x": "x",
	} {
		if got := words.Number(n); got != want {
			t.Errorf("words.Number(%v) = %q, want %q", n, got, want)
		}
	}
	if got := words.Times(1); got != "once" {
		t.Errorf(`words.Times(1) = %q, want "once"`, got)
	}
	if got := words.Times(1000); got != "1,000 times" {
		t.Errorf(`words.Times(1000) = %q, want "1,000 times"`, got)
	}
}

func TestSpanHasAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1.0 s", 10 * time.Second: "10 s", time.Minute: "1 min 0 s", time.Hour: "1 h 0 min", 48 * time.Hour: "2 days",
		-time.Hour: "0 ms", 999 * time.Microsecond: "0 ms", 1500 * time.Millisecond: "1.5 s", 59*time.Second + 999*time.Millisecond: "59 s",
		61 * time.Second: "1 min 1 s", 47*time.Hour + 59*time.Minute: "47 h 59 min", 49 * time.Hour: "2 days",
	} {
		if got := words.Span(d); got != want {
			t.Errorf("words.Span(%v) = %q, want %q", d, got, want)
		}
	}
	if got := words.Seconds(2.5); got != "2.5 s" {
		t.Errorf(`words.Seconds(2.5) = %q, want "2.5 s"`, got)
	}
}
