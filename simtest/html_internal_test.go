package simtest

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// Text from any source is escaped, and each line has a lane for each system.
func TestPageIsEscaped(t *testing.T) {
	const evil = `"><script>alert('x')</script><img src=x onerror=alert(1)>&`
	f := &Failure{
		Problem: evil, Severity: evil, Rule: evil, Plan: Plan{{Do: faultSlow, System: evil, Op: "update", Object: evil, Nth: 1}}, More: make([]Plan, 2),
		lines: []line{{actor: evil, text: evil}, {actor: "sites.1", text: "CRASH " + evil}, {state: true, text: "- " + evil}},
	}
	var b strings.Builder
	if err := writePage(&b, evil, []*Failure{f}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for text, want := range map[string]int{
		"<script": 0, "<img": 0, "http://": 0, "&lt;script&gt;": 14, `<line class="track"`: 6, `<path class="bad"`: 1, "2 more plans": 1, ">0s<": 1, // a time is shown once
	} {
		if got := strings.Count(page, text); got != want {
			t.Errorf("%q occurs %d times, want %d", text, got, want)
		}
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, _ := token.(xml.StartElement)
		if slices.Contains([]string{"script", "img", "link", "iframe"}, e.Name.Local) {
			t.Errorf("the page has an element %q", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("the page has an attribute %q", a.Name.Local)
			}
		}
	}
}
