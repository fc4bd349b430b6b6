package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/debug/internal/words"
)

func TestVisibleEscapesWhatDoesNotPrint(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain \"text\"": "plain \"text\"", "a\nb": `a\nb`, "\u202eevil": `\u202eevil`, "\xff": `\xff`, "é": "é",
	} {
		assert.Equal(t, want, words.Visible(text))
	}
	long := words.Short(strings.Repeat("k", 119) + "é and more")
	assert.Equal(t, strings.Repeat("k", 119)+"… (130 bytes)", long, "a letter is not cut in half")
	assert.Equal(t, "short", words.Short("short"))
}

func TestNumbersHaveSeparators(t *testing.T) {
	for n, want := range map[any]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", int64(4321): "4,321", uint64(1) << 63: "9,223,372,036,854,775,808", "x": "x"} {
		assert.Equal(t, want, words.Number(n))
	}
	assert.Equal(t, "once", words.Times(1))
	assert.Equal(t, "1,000 times", words.Times(1000))
}

func TestSpanHasAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 ms", 999 * time.Microsecond: "0 ms", 1500 * time.Millisecond: "1.5 s", 59*time.Second + 999*time.Millisecond: "59 s",
		61 * time.Second: "1 min 1 s", 47*time.Hour + 59*time.Minute: "47 h 59 min", 49 * time.Hour: "2 days",
	} {
		assert.Equal(t, want, words.Span(d))
	}
	assert.Equal(t, "2.5 s", words.Seconds(2.5))
}
