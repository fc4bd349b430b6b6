package informer_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
)

// journal is a source: the lines of a log, "+name" and "-name", which is complete. The version is the number of lines.
type journal []string

// List implements [informer.ListWatcher].
func (j journal) List(context.Context) (informer.List[string], error) {
	var names []string
	for _, line := range j {
		name := line[1:]
		if line[0] == '+' {
			names = append(names, name)
		} else {
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		}
	}
	return informer.List[string]{Items: names, Version: informer.Version(len(j))}, nil
}

// Watch implements [informer.ListWatcher].
func (j journal) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[string], error] {
	return func(yield func(informer.Event[string], error) bool) {
		for i, line := range j[after:] {
			ev := informer.Event[string]{Type: informer.Added, Object: line[1:], Version: after + informer.Version(i) + 1}
			if strings.HasPrefix(line, "-") {
				ev.Type = informer.Deleted
			}
			if !yield(ev, nil) {
				return
			}
		}
		<-ctx.Done() // nothing more will come
		yield(informer.Event[string]{}, context.Cause(ctx))
	}
}

// A source is two methods.
func ExampleListWatcher() {
	var src informer.ListWatcher[string] = journal{"+ulm", "+kiel", "-ulm"}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, err := src.List(ctx)
	fmt.Println(list.Items, list.Version, err)
	for ev, err := range src.Watch(ctx, 1) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(ev.Version, ev.Type, ev.Object)
		if ev.Version == list.Version {
			cancel()
		}
	}
	// Output:
	// [kiel] 3 <nil>
	// 2 Added kiel
	// 3 Deleted ulm
	// context canceled
}
