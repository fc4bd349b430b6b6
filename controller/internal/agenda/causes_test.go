package agenda_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
)

func TestKeyHasCausesSinceLastTake(t *testing.T) {
	var b agenda.Causes[string]
	if got := b.Take("a"); got != nil {
		t.Errorf(`b.Take("a") = %v, want nil`, got)
	}
	b.Note("a", "1")
	b.Note("a", "2")
	b.Note("a", "1")
	b.Note("b", "3")
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
	if got := b.Take("c"); got != nil {
		t.Errorf(`b.Take("c") = %v, want nil`, got)
	}
	if got, want := b.Take("a"), ([]string{"1", "2"}); !slices.Equal(got, want) {
		t.Errorf(`each once, the oldest first: b.Take("a") = %q, want %q`, got, want)
	}
	if got := b.Take("a"); got != nil {
		t.Errorf(`b.Take("a") = %v, want nil`, got)
	}
	if got := b.Len(); got != 1 {
		t.Errorf("b.Len() = %v, want 1", got)
	}
	if got, want := b.Take("b"), ([]string{"3"}); !slices.Equal(got, want) {
		t.Errorf(`b.Take("b") = %q, want %q`, got, want)
	}
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
}

func TestOldestAndNewestCausesAreKept(t *testing.T) {
	var b agenda.Causes[string]
	for i := range agenda.MaxCauses + 3 {
		b.Note("a", fmt.Sprint(i))
		if err := b.CheckInvariants(); err != nil {
			t.Fatalf("b.CheckInvariants(): %v", err)
		}
	}
	if got, want := b.Take("a"), ([]string{"0", "4", "5", "6", "7", "8", "9", "10"}); !slices.Equal(got, want) {
		t.Errorf(`b.Take("a") = %q, want %q`, got, want)
	}
}

func TestRestoredCausesPrecedeNewerOnes(t *testing.T) {
	var b agenda.Causes[string]
	b.Restore("a", nil)
	if got := b.Len(); got != 0 {
		t.Errorf("b.Len() = %v, want 0", got)
	}
	for _, c := range []string{"1", "2", "3"} {
		b.Note("a", c)
	}
	taken := b.Take("a")
	b.Restore("a", taken)
	if got, want := b.Take("a"), ([]string{"1", "2", "3"}); !slices.Equal(got, want) {
		t.Errorf(`b.Take("a") = %q, want %q`, got, want)
	}
	for i := range agenda.MaxCauses - 1 {
		b.Note("a", fmt.Sprint("new ", i))
	}
	b.Note("a", "2")
	b.Restore("a", taken)
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
	if diff := cmp.Diff([]string{"1", "new 1", "new 2", "new 3", "new 4", "new 5", "new 6", "2"}, b.Take("a")); diff != "" {
		t.Errorf("b.Take(\"a\") mismatch (-want +got):\n%s", diff)
	}
	if want := ([]string{"1", "2", "3"}); !slices.Equal(taken, want) {
		t.Errorf("a list that was taken never changes: taken = %q, want %q", taken, want)
	}
}

func TestCausesReleaseMemoryAfterBurst(t *testing.T) {
	var b agenda.Causes[int]
	for i := range 5000 {
		b.Note(i, "1")
	}
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
	for i := range 5000 {
		if !b.HasMap() {
			t.Errorf("with %d keys left: b.HasMap() is false", 5000-i)
		}
		b.Take(i)
	}
	if b.HasMap() {
		t.Error("b.HasMap() is true")
	}
	b.Note(1, "1")
	b.Take(1)
	if !b.HasMap() {
		t.Error("b.HasMap() is false")
	}
	if err := b.CheckInvariants(); err != nil {
		t.Fatalf("b.CheckInvariants(): %v", err)
	}
}
