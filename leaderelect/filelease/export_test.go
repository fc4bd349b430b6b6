package filelease

// OnStep makes s call f between any two steps of a call.
func (s *Store) OnStep(f func(step string)) { s.step = f }

// Prepare creates the directory of a store and calls sync for each directory whose names must be on the disk.
func Prepare(dir string, sync func(path string) error) error { return prepare(dir, sync) }

// KeyOfFileName returns the key whose directory has the given name, without its suffix.
func KeyOfFileName(name string) (string, bool) { return keyOfFileName(name) }

// Marked marks err with retry.Permanent if this process may not use the files.
func Marked(err error) error { return marked(err) }
