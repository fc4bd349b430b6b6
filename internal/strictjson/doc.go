// Package strictjson is the default codec of package store: encoding/json, except that it rejects types and values that JSON does not
// preserve.
//
// # Guarantees
//
//  1. [Check] rejects each type with a field that encoding/json drops or cannot decode, unless the field has the tag json:"-" or its type
//     is an interface without methods.
//  2. [Encode] rejects a string that is not UTF-8, for which encoding/json silently writes U+FFFD.
//  3. Each error names the field at fault.
package strictjson
