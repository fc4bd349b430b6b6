// Package effective is the code of the guide "Effective controllers", in docs/effective. Each chapter has a package below this one,
// with programs that make the mistake of the chapter, and programs that do not. The tests of the chapters are here: each makes
// simtest break the wrong programs, checks that simtest finds no bug in the right ones, and compares the code and the
// reports on the page with them. To run one, name its package:
//
//	go test -v -run EachChapter/leader ./examples/effective
package effective
