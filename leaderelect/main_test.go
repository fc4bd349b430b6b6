package leaderelect_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/internal/looptest"
)

func TestMain(m *testing.M) { looptest.Main(m) }
