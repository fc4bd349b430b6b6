package filelease

// OnStep makes s call f between any two steps of a call.
func (s *Store) OnStep(f func(step string)) { s.step = f }

// KeyOfFileName returns the key whose directory has the given name, without its suffix.
func KeyOfFileName(name string) (string, bool) { return keyOfFileName(name) }
