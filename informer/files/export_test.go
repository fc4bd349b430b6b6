package files

// Expire makes s forget its history.
func Expire[K comparable, T any](s *Source[K, T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.low = nil, s.version
}
