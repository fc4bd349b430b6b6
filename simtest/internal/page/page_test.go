package page_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

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
	if err := p.Write(&b); err != nil {
		t.Fatalf("p.Write(&b): %v", err)
	}
	if got := b.String(); strings.Contains(got, "<script") {
		t.Fatalf(`b.String() = %q, want it without "<script"`, got)
	}
	if got := b.String(); strings.Contains(got, "<img") {
		t.Fatalf(`b.String() = %q, want it without "<img"`, got)
	}
	if got := b.String(); strings.Contains(got, "http://") {
		t.Fatalf(`b.String() = %q, want it without "http://"`, got)
	}
	if got := strings.Count(b.String(), "&lt;script&gt;"); got != 15 {
		t.Fatalf(`strings.Count(b.String(), "&lt;script&gt;") = %d, want 15: none is left out`, got)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			if slices.Contains([]string{"script", "img", "link", "iframe"}, e.Name.Local) {
				t.Fatalf("the page has an element %q", e.Name.Local)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") {
					t.Fatalf("the page has an attribute %q", a.Name.Local)
				}
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
	if err := p.Write(&b); err != nil {
		t.Fatalf("p.Write(&b): %v", err)
	}
	if got := strings.Count(b.String(), `<line class="track"`); got != 8 {
		t.Fatalf("strings.Count(b.String(), `<line class=\"track\"`) = %d, want 8: each line has both lanes", got)
	}
	if got := strings.Count(b.String(), `<path class="bad"`); got != 1 {
		t.Fatalf("strings.Count(b.String(), `<path class=\"bad\"`) = %d, want 1", got)
	}
	if got := strings.Count(b.String(), `<circle class="ring"`); got != 1 {
		t.Fatalf("strings.Count(b.String(), `<circle class=\"ring\"`) = %d, want 1", got)
	}
	var again strings.Builder
	if err := p.Write(&again); err != nil {
		t.Fatalf("p.Write(&again): %v", err)
	}
	if got, want := again.String(), b.String(); got != want {
		t.Fatalf("again.String() = %q, want %q", got, want)
	}
}

func TestWriterErrorIsReturned(t *testing.T) {
	r, w := io.Pipe()
	if err := r.CloseWithError(io.ErrShortWrite); err != nil {
		t.Fatalf("r.CloseWithError(io.ErrShortWrite): %v", err)
	}
	if err := (page.Page{}).Write(w); !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("page.Page{}.Write(w) = %v, want %v", err, io.ErrShortWrite)
	}
}
