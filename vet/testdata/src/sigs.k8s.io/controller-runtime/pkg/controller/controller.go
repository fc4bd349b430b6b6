// Package controller has the part of the real package that the tests of the analyzers use.
package controller

type Options struct{ MaxConcurrentReconciles int }
