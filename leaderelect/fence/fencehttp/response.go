package fencehttp

import (
	"bytes"
	"maps"
	"net/http"
)

// maxKept is the size of the largest response that is kept until the work has ended.
const maxKept = 1 << 20

// response is the ResponseWriter of work for which a successor waits. It keeps the response until the work has ended, so that a client that
// does not read it delays nobody.
type response struct {
	w      http.ResponseWriter
	status int         // zero until WriteHeader
	header http.Header // as of WriteHeader
	body   bytes.Buffer
	sends  bool // the rest of the response too
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	switch {
	case r.status != 0:
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.w.WriteHeader(status) // informational; another one follows
	default:
		r.status, r.header = status, r.w.Header().Clone()
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.sends && r.body.Len()+len(p) <= maxKept {
		return r.body.Write(p)
	}
	if err := r.send(); err != nil {
		return 0, err
	}
	return r.w.Write(p)
}

// FlushError sends what was written, for http.ResponseController.
func (r *response) FlushError() error {
	r.WriteHeader(http.StatusOK)
	if err := r.send(); err != nil {
		return err
	}
	return http.NewResponseController(r.w).Flush()
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.w }

// send sends what is kept. From then on, writes go to the client at once.
func (r *response) send() error {
	if r.sends {
		return nil
	}
	r.sends = true
	later := maps.Clone(r.w.Header()) // with the trailers that were set after WriteHeader
	clear(r.w.Header())
	maps.Copy(r.w.Header(), r.header)
	r.w.WriteHeader(r.status)
	var err error
	if r.body.Len() > 0 {
		_, err = r.body.WriteTo(r.w)
	}
	clear(r.w.Header())
	maps.Copy(r.w.Header(), later)
	return err
}

// finish sends the response, unless the handler has written nothing, or has taken the connection over.
func (r *response) finish() {
	if r.status != 0 {
		_ = r.send() // a client that has gone needs no answer
	}
}
