package machine

// RemoverOf opens the record of a replica, as somebody does who looks whether it is stale, and returns what he does if
// it is.
func RemoverOf(dir, id string) (remove func() error, err error) {
	r, err := openRecord(dir, id)
	if err != nil {
		return nil, err
	}
	return func() error {
		defer r.Close()
		return r.removeStale()
	}, nil
}
