// Package envelope encodes and decodes the part of an object that package store adds to its value. Package simtest decodes it too. The
// encoding is that of encoding/json, which takes about as long for an envelope as for the value.
//
// # Guarantees
//
//  1. [Encode] returns the bytes that encoding/json returns.
//  2. [Decode] returns the envelope that encoding/json returns, or its error.
package envelope
