// Command pictures draws the pictures of the documentation as SVG files:
//
//	go run ./docs/pictures docs/pictures
//
// A test compares the files in this directory with the output of the program.
//
// # Guarantees
//
//  1. A picture is the same, byte for byte, each time.
//  2. It follows the light or dark theme of the reader, and loads no other file.
package main
