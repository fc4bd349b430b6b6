// Package strictjson is the default codec of package store: encoding/json, which refuses types and values that JSON does not keep.
//
// # Guarantees
//
//  1. [Check] refuses each type with a field that encoding/json drops or cannot decode, unless the field has the tag json:"-" or its
//     type is an interface without methods.
//  2. [Encode] refuses a string that is not UTF-8, for which encoding/json silently writes U+FFFD.
//  3. Each error names the field at fault.
//  4. What [DecodeEnvelope] decodes, encoding/json decodes to the same.
package strictjson
