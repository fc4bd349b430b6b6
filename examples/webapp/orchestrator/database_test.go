package orchestrator

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramWithoutDatabasesNamesTheOneWithThem(t *testing.T) {
	var out strings.Builder
	require.Equal(t, 1, run([]string{"-store", "sqlite:webapp.db"}, io.Discard, &out))
	require.Equal(t, "webapp: open -store \"sqlite:webapp.db\": "+
		"this program has no databases, but go run ./examples/webapp/stores does\n", out.String())
}

func TestProgramWithDatabaseOffersIt(t *testing.T) {
	openers := map[string]Opener{"nats": nil, "etcd": nil}
	var out strings.Builder
	require.Zero(t, Main([]string{"-h"}, io.Discard, &out, openers))
	require.Contains(t, out.String(), "memory:, etcd:, nats:")
	out.Reset()
	require.Equal(t, 1, Main([]string{"-store", "mysql://host"}, io.Discard, &out, openers))
	require.Equal(t, "webapp: open -store \"mysql://host\": it begins with none of memory:, etcd:, nats:\n", out.String())
}
