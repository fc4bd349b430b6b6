// Package plain copies and compares values of plain data by reflection. Package store keeps such values as they are, without a codec.
//
// Plain data are booleans, numbers, strings, [time.Time], and arrays, slices, maps, pointers, and structs of plain data. A struct has
// exported fields only. The key of a map contains no pointer, float, or time. A type may be recursive; a value must be a tree.
//
// # Guarantees
//
//  1. A copy shares no mutable memory with its original.
//  2. Two values are equal only if they are the same to the last bit: NaN equals the same NaN, 0 differs from -0, and nil differs from
//     an empty slice or map. Two times are equal if they are the same instant at the same offset from UTC.
//  3. A value that contains itself panics with a message that names the type. Up to 10,000 nested pointers, slices, and maps are
//     copied.
package plain
