package events

// Tee returns a Config.Sink that calls each of sinks, in their order.
func Tee(sinks ...func(Event)) func(Event) {
	return func(e Event) {
		for _, sink := range sinks {
			sink(e)
		}
	}
}
