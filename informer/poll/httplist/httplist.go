package httplist

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/retry"
)

// Config is the configuration of a [List]. Its zero value can be used.
type Config struct {
	// Client sends the requests. Defaults to http.DefaultClient.
	Client *http.Client

	// Prepare changes each request before it is sent. For example, it sets the header Authorization. If it returns an error, the list fails
	// with that error. Defaults to nothing.
	Prepare func(*http.Request) error

	// Timeout limits a request, with its response. Defaults to 30 s.
	Timeout time.Duration

	// MaxBytes is the largest size of a page, after decompression. A larger page is an error. Defaults to 64 MiB.
	MaxBytes int64

	// Links says that the header Link of a page has the next page, with rel="next", and that decode does not return it. Then the last page is
	// always transferred, because it may have a next page although its body is the same.
	Links bool

	// Keyset says that a page begins after the last key of the page before, or that all pages are of one snapshot. So no object moves to
	// another page while the pages are read, and they are read once. Do not set it if the URL of a page has an offset or a page number.
	Keyset bool
}

func (c Config) validate() error {
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Config.Timeout is %v, must not be negative", c.Timeout))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("Config.MaxBytes is %d, must not be negative", c.MaxBytes))
	}
	return problems.Join(errs...)
}

// List lists the objects of an API. Its method List is the list function of one [poll.Source], which never calls it concurrently.
type List[T any] struct {
	first  *url.URL
	decode func(page []byte) (items []T, next string, err error)
	cfg    Config

	busy  atomic.Bool // List is running. It alone uses the following.
	pages []page[T]   // of the last list that was returned
	until time.Time   // no request is sent before
}

// page is the last content of a page.
type page[T any] struct {
	url      string
	etag     string
	modified string // Last-Modified, if it can be relied on
	sum      [sha256.Size]byte
	items    []T
	missing  []error // of poll.Incomplete
	follows  string  // what decode returned
	next     string  // the URL of the next page; empty if this is the last one
}

// New returns a list of the objects under a URL. decode returns the objects of a page, and the URL of the next page, which may be relative,
// or "" if there is none. It may return an error of [poll.Incomplete] with the objects that it could read. Any other error fails the list.
//
// New returns an error if the URL is not one of http or https, or if a field of cfg is invalid. It panics if decode is nil.
func New[T any](first string, decode func(page []byte) (items []T, next string, err error), cfg Config) (*List[T], error) {
	if decode == nil {
		panic("httplist: New called with a nil decode function")
	}
	u, err := url.Parse(first)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = fmt.Errorf("%q is not a URL of http or https", first)
	}
	if err = problems.Join(err, cfg.validate()); err != nil {
		return nil, fmt.Errorf("httplist: new list: %w", err)
	}
	cfg.Client = cmp.Or(cfg.Client, http.DefaultClient)
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.MaxBytes = min(cmp.Or(cfg.MaxBytes, 64<<20), math.MaxInt64-1)
	return &List[T]{first: u, decode: decode, cfg: cfg}, nil
}

// passes is how often the pages are read at most, until none changes. One change that falls into such a time needs four: the list that
// notices something, the one in which the change happens, the one that shows all of it, and the one that confirms that.
const passes = 5

// List returns all objects, or [poll.ErrUnchanged]. It panics if it is called concurrently.
func (l *List[T]) List(ctx context.Context) ([]T, error) {
	if !l.busy.CompareAndSwap(false, true) {
		panic("httplist: List called concurrently: use one List for each poll.Source")
	}
	defer l.busy.Store(false)
	items, err := l.list(ctx)
	if err != nil && !errors.Is(err, poll.ErrUnchanged) {
		err = fmt.Errorf("httplist: %w", err)
	}
	return items, err
}

func (l *List[T]) list(ctx context.Context) ([]T, error) {
	if wait := time.Until(l.until); wait > 0 {
		return nil, retry.After(fmt.Errorf("the server has asked for no request in the next %v", wait.Round(time.Second)), wait)
	}
	pages, changed, err := l.read(ctx, l.pages)
	if err != nil {
		return nil, err
	}
	if !changed {
		return nil, poll.ErrUnchanged
	}
	for n := 1; len(pages) > 1 && !l.cfg.Keyset && changed; n++ {
		if n == passes {
			return nil, fmt.Errorf("list %s: the pages changed while they were read, %d times", l.first.Redacted(), passes)
		}
		if pages, changed, err = l.read(ctx, pages); err != nil {
			return nil, err
		}
	}
	l.pages = pages
	var items []T
	var missing []error
	for _, p := range pages {
		items = append(items, p.items...)
		missing = append(missing, p.missing...)
	}
	if len(missing) > 0 {
		return items, poll.Incomplete(missing...)
	}
	return items, nil
}

// read reads all pages, and reports whether one of them is not as it was before.
func (l *List[T]) read(ctx context.Context, before []page[T]) (pages []page[T], changed bool, err error) {
	changed = before == nil
	for at := l.first.String(); at != ""; {
		if slices.ContainsFunc(pages, func(p page[T]) bool { return p.url == at }) {
			return nil, false, fmt.Errorf("list %s: page %d leads back to %s", l.first.Redacted(), len(pages), at)
		}
		var old *page[T]
		if i := slices.IndexFunc(before, func(p page[T]) bool { return p.url == at }); i >= 0 {
			old = &before[i]
		}
		p, same, err := l.get(ctx, at, old)
		if err != nil {
			return nil, false, err
		}
		changed = changed || !same
		pages = append(pages, p)
		at = p.next
	}
	return pages, changed || len(pages) != len(before), nil
}

// get reads a page. same reports whether it is as it was before; old is nil if it was not read before.
func (l *List[T]) get(ctx context.Context, at string, old *page[T]) (p page[T], same bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.Timeout, fmt.Errorf("no complete response within %v", l.cfg.Timeout))
	defer cancel()
	p, same, err = l.exchange(ctx, at, old)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		shown := at
		if u, parsed := url.Parse(at); parsed == nil {
			shown = u.Redacted()
		}
		err = fmt.Errorf("get %s: %w", shown, err)
	}
	return p, same, err
}

func (l *List[T]) exchange(ctx context.Context, at string, old *page[T]) (p page[T], same bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return p, false, err
	}
	conditional := true
	switch {
	case old == nil, l.cfg.Links && old.next == "": // a next page may have come: a response without a body need not have the header Link
		conditional = false
	case old.etag != "":
		req.Header.Set("If-None-Match", old.etag)
	case old.modified != "":
		req.Header.Set("If-Modified-Since", old.modified)
	default:
		conditional = false
	}
	if l.cfg.Prepare != nil {
		if err := l.cfg.Prepare(req); err != nil {
			return p, false, err
		}
	}
	resp, err := l.cfg.Client.Do(req)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err // without the URL, which the caller adds
		}
		return p, false, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read, or is of no use
	switch {
	case resp.StatusCode == http.StatusNotModified && conditional:
		return *old, true, nil
	case resp.StatusCode != http.StatusOK:
		return p, false, l.refused(resp)
	}
	body, err := l.body(resp)
	if err != nil {
		return p, false, err
	}
	p = page[T]{url: at, etag: resp.Header.Get("ETag"), modified: lastModified(resp.Header), sum: sha256.Sum256(body)}
	if same = old != nil && p.sum == old.sum; same {
		p.items, p.missing, p.follows = old.items, old.missing, old.follows
	} else {
		p.items, p.follows, err = l.decode(body)
		if p.missing = poll.Missing(err); err != nil && p.missing == nil {
			return p, false, err
		}
	}
	follows := p.follows
	if l.cfg.Links {
		follows = nextLink(resp.Header.Values("Link"))
	}
	if follows != "" {
		if p.next, err = l.resolve(resp.Request.URL, follows); err != nil {
			return p, false, err
		}
	}
	return p, same, nil
}

// resolve returns the URL of the next page. follows is relative to that of a page.
func (l *List[T]) resolve(page *url.URL, follows string) (string, error) {
	u, err := page.Parse(follows)
	if err != nil {
		return "", fmt.Errorf("the next page: %w", err)
	}
	if u.Scheme != l.first.Scheme || u.Host != l.first.Host {
		return "", fmt.Errorf("the next page is %s, not under %s://%s", u.Redacted(), l.first.Scheme, l.first.Host)
	}
	return u.String(), nil
}

// refused returns the error for a response that has no list.
func (l *List[T]) refused(resp *http.Response) error {
	err := fmt.Errorf("the status is %s, not 200", cmp.Or(resp.Status, strconv.Itoa(resp.StatusCode)))
	d := retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if d <= 0 {
		return err
	}
	l.until = time.Now().Add(d)
	return retry.After(err, d)
}

// body reads the whole body.
func (l *List[T]) body(resp *http.Response) ([]byte, error) {
	// The decompression checks the end, too.
	if resp.ContentLength < 0 && !resp.Uncompressed && resp.ProtoMajor < 2 && !slices.Contains(resp.TransferEncoding, "chunked") {
		return nil, errors.New("the response has neither a length nor chunks, so nobody can know whether it is complete")
	}
	var body bytes.Buffer
	if resp.ContentLength > 0 && resp.ContentLength <= l.cfg.MaxBytes {
		body.Grow(int(resp.ContentLength))
	}
	n, err := body.ReadFrom(io.LimitReader(resp.Body, l.cfg.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("after %d bytes: %w", n, err)
	}
	if n > l.cfg.MaxBytes {
		return nil, fmt.Errorf("the page has more than the %d bytes of Config.MaxBytes", l.cfg.MaxBytes)
	}
	return body.Bytes(), nil
}

// maxPause is the longest time for which a Retry-After is respected.
const maxPause = time.Hour

// retryAfter returns the delay that a header Retry-After requests, or 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxPause/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxPause)
}

// lastModified returns the header Last-Modified, or "" if a later change may have the same time, which has no fractions of a second.
func lastModified(h http.Header) string {
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	sent, sentErr := http.ParseTime(h.Get("Date"))
	if err != nil || sentErr != nil || sent.Sub(modified) < time.Second {
		return ""
	}
	return h.Get("Last-Modified")
}

// nextLink returns the target of the first link with rel="next", or "".
func nextLink(headers []string) string {
	for _, h := range headers {
		for h != "" {
			_, after, ok := strings.Cut(h, "<")
			if !ok {
				break
			}
			target, params, ok := strings.Cut(after, ">")
			if !ok {
				break
			}
			var next bool
			if next, h = isNext(params); next {
				return target
			}
		}
	}
	return ""
}

// isNext reports whether the parameters of a link, up to a comma, have the relation "next". It returns the text after the comma.
func isNext(params string) (next bool, rest string) {
	first := true // only the first rel counts
	for {
		params = strings.TrimLeft(params, " \t")
		if params == "" || params[0] == ',' {
			return next, strings.TrimPrefix(params, ",")
		}
		params = strings.TrimLeft(strings.TrimPrefix(params, ";"), " \t")
		i := strings.IndexAny(params, "=;,")
		if i < 0 {
			return next, ""
		}
		if params[i] != '=' {
			params = params[i:]
			continue
		}
		name, value := strings.TrimRight(params[:i], " \t"), ""
		if value, params = paramValue(strings.TrimLeft(params[i+1:], " \t")); strings.EqualFold(name, "rel") && first {
			first = false
			next = slices.ContainsFunc(strings.Fields(value), func(rel string) bool { return strings.EqualFold(rel, "next") })
		}
	}
}

// paramValue returns the token or the quoted string at the beginning of a text, and what follows.
func paramValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		if i := strings.IndexAny(text, ";,"); i >= 0 {
			return strings.TrimRight(text[:i], " \t"), text[i:]
		}
		return strings.TrimRight(text, " \t"), ""
	}
	var quoted strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return quoted.String(), text[i+1:]
		case '\\':
			if i++; i == len(text) {
				return quoted.String(), ""
			}
		}
		quoted.WriteByte(text[i])
	}
	return quoted.String(), ""
}
