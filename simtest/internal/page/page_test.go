package page_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/simtest/internal/page"
)

const evil = `"><script>alert('x')</script><img src=x onerror=alert(1)>&`

// Text from any source is escaped.
func TestEveryTextIsEscaped(t *testing.T) {
	p := page.Page{Title: evil, Failures: []page.Failure{{
		Problem: evil, Severity: evil, Rule: evil, Means: evil, Plan: evil, Lanes: []string{evil},
		Lines: []page.Line{{At: evil, Who: evil, Text: evil, Mark: evil}, {Lane: -1, Text: evil, Mark: page.Missing}},
	}}}
	var b strings.Builder
	require.NoError(t, p.Write(&b))
	require.NotContains(t, b.String(), "<script")
	require.NotContains(t, b.String(), "<img")
	require.NotContains(t, b.String(), "http://")
	require.Equal(t, 15, strings.Count(b.String(), "&lt;script&gt;"), "none is left out")
	d := xml.NewDecoder(strings.NewReader(b.String()))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			require.NotContains(t, []string{"script", "img", "link", "iframe"}, e.Name.Local)
			for _, a := range e.Attr {
				require.False(t, strings.HasPrefix(a.Name.Local, "on"), "%s", a.Name.Local)
			}
		}
	}
}

func TestEachSystemHasLane(t *testing.T) {
	p := page.Page{Failures: []page.Failure{{
		Lanes: []string{"user", "sites"},
		Lines: []page.Line{{Lane: 0, Mark: page.Step}, {Lane: 1, Mark: page.Crash}, {Lane: 1, Mark: page.Fault}, {Lane: -1, Mark: page.Extra}},
	}}}
	var b strings.Builder
	require.NoError(t, p.Write(&b))
	require.Equal(t, 8, strings.Count(b.String(), `<line class="track"`), "each line has both lanes")
	require.Equal(t, 1, strings.Count(b.String(), `<path class="bad"`))
	require.Equal(t, 1, strings.Count(b.String(), `<circle class="ring"`))
	var again strings.Builder
	require.NoError(t, p.Write(&again))
	require.Equal(t, b.String(), again.String())
}

func TestWriterErrorIsReturned(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(io.ErrShortWrite))
	require.ErrorIs(t, page.Page{}.Write(w), io.ErrShortWrite)
}
