package database_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestOpOfACommit(t *testing.T) {
	none, gone := backend.Record{}, backend.Record{Version: 2, Deleted: true}
	there := backend.Record{Version: 1, Meta: []byte(`{"uid":"1"}`)}
	deleting := backend.Record{Version: 1, Meta: []byte(`{"uid":"1","deleting":"2026-01-01T00:00:00Z"}`)}
	for _, c := range []struct {
		before, after backend.Record
		want          string
	}{
		{none, there, "create"},
		{gone, there, "create"},
		{there, there, "update"},
		{there, deleting, "delete"},
		{deleting, deleting, "update"}, // such as the removal of a finalizer
		{deleting, gone, "delete"},
		{there, gone, "delete"},
	} {
		if got := database.OpOf(c.before, c.after); got != c.want {
			t.Errorf("%v, then %v: database.OpOf(c.before, c.after) = %q, want %q", c.before, c.after, got, c.want)
		}
	}
}
