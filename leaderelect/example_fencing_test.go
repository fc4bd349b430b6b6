package leaderelect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// database refuses writes of earlier leaders, which a lease cannot do by itself.
type database struct{ term uint64 }

func (d *database) write(ctx context.Context, what string) error {
	l, ok := leaderelect.FromContext(ctx)
	if !ok || l.Term() < d.term {
		return errors.New("refused: " + what)
	}
	d.term = l.Term()
	fmt.Println("written:", what)
	return nil
}

// Work calls Err before each effect and sends its term along. The receiver refuses a leader that was suspended and does not
// know that it was replaced.
func ExampleLeadership() {
	var db database
	var past context.Context
	elector, err := leaderelect.New(leaderelect.Config{
		Store:  memlease.New(),
		Key:    "shop-controller",
		Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			if err := l.Err(); err != nil {
				return err
			}
			past = ctx
			return db.write(ctx, fmt.Sprint("order of term ", l.Term()))
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.RunOnce(context.Background()))
	old := past
	fmt.Println(elector.RunOnce(context.Background()))

	l, _ := leaderelect.FromContext(old)
	fmt.Println(l.Err())
	fmt.Println(db.write(old, "late order"))
	// Output:
	// written: order of term 1
	// <nil>
	// written: order of term 2
	// <nil>
	// leaderelect: work has returned and its term is over
	// refused: late order
}
