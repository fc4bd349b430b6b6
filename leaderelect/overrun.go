package leaderelect

import (
	"log/slog"
	"os"
)

// ExitOnOverrun is a [Config.OnStepDownOverrun] that ends the process, with exit code 1 and an error in slog's default
// log, for work that cannot be stopped otherwise: another may lead already, and what this process still does is wrong.
func ExitOnOverrun(l *Leadership) {
	slog.Error("leaderelect: exit: the work goes on although another may lead", "term", l.term, "cause", l.Err())
	os.Exit(1)
}
