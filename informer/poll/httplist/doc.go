// Package httplist lists the objects of an API that is read over HTTP, for package poll: with conditional requests, pages, and Retry-After.
//
// # Usage
//
//	api, err := httplist.New("https://inventory.example/sites", decode, httplist.Config{})
//	source, err := poll.New(api.List, func(s Site) string { return s.Name }, poll.Config[Site]{Interval: 10 * time.Second})
//	sites, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{Name: "sites"})
//
// # Guarantees
//
//  1. A list is complete, or it is an error. So a response that was cut short, a page that is missing, a page of another status than 200, or
//     a body without a known end, never looks like a deletion. A decode function must not return what it could read of a body that ends
//     early: encoding/json does not.
//  2. A page is decoded only if it has changed: the server says so (ETag, Last-Modified, and the status 304), or its bytes are the same. If
//     no page has changed, [List.List] returns [poll.ErrUnchanged]. A Last-Modified that is less than a second older than its response is
//     not used, since it would hide a later change within that second.
//  3. If a list has several pages, and one of them has changed, all pages are read again, up to five times, until none changes: otherwise a
//     deletion between two requests could move an object to a page that has been read already, and the object would look deleted.
//     [Config].Keyset turns that off.
//  4. After a response with Retry-After, no request is sent before that time, but at most an hour passes. The error has that delay: see
//     [retry.Delay].
//  5. The URL of the next page must have the scheme and host of the first one, because requests may carry credentials.
//
// # Standards
//
// Conditional requests and Retry-After follow RFC 9110, and links to the next page RFC 8288.
package httplist
