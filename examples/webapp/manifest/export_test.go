package manifest

// Resolve is resolve over files that are good and files that are bad.
func Resolve(before, good map[string]Manifest, bad map[string]*Error) (after map[string]Manifest, problems map[string]*Error) {
	files := readings(good)
	for file, problem := range bad {
		files[file] = reading{problem: problem}
	}
	return resolve(before, files)
}

// MergeAt is the end of the turn-th List, which has read these files.
func (d *Dir) MergeAt(turn uint64, good map[string]Manifest) []Manifest {
	list, _, _ := d.merge(turn, readings(good))
	return list
}

func readings(good map[string]Manifest) map[string]reading {
	files := make(map[string]reading)
	for file, m := range good {
		files[file] = reading{manifest: m}
	}
	return files
}
