// Package effective is the code of the guide "Effective controllers", in docs/effective. Each chapter has a package below this one,
// with a program that makes the mistake of the chapter, one that does not, and a test. The test has simtest break the first program,
// finds the second one silent, and compares both with the page.
package effective
