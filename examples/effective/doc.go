// Package effective is the code of the guide "Effective controllers", in docs/effective. Each chapter has a package below this one,
// with a program that makes the mistake of the chapter, and one that does not. The test of the chapter is here: it has simtest break
// the first program, finds the second one silent, and compares both with the page. To run one, name its package:
//
//	go test -v -run EachChapter/leader ./examples/effective
package effective
