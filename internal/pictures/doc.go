// Command pictures draws the pictures of the documentation as SVG files, which follow the light or dark theme of the reader:
//
//	go run ./internal/pictures docs/pictures
//
// A test compares the files in docs/pictures with what the program draws.
package main
