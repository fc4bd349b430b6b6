package notify

// Lost returns what a follower of src does about an error of the system.
func Lost(src Source, report func(error)) func(error) {
	return (&follower{src: src, report: report}).lost
}
