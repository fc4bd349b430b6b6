// Package effective is the code of the guide "Effective controllers", in docs/effective. Each chapter has a package below this one,
// with a program that makes the mistake of the chapter, and one that does not. The tests of the chapters are here: each makes
// simtest break the first program, checks that simtest is silent on the second, and compares both with the page. To run one, name
// its package:
//
//	go test -v -run EachChapter/leader ./examples/effective
package effective
