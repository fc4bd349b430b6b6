// Package lincheck checks histories of setpoint's queue, made by concurrent producers and workers, for linearizability. For each key,
// there must be one order of the calls, within the times at which they ran, that a machine of three flags could have followed. The machine
// is in model_test.go. A key that is lost, handed out twice, or handed out without an Add makes such an order impossible.
//
// The checker is porcupine. It exports nothing.
//
//	go test .                          # 1,000 histories
//	LINCHECK_TIME=1m go test -race .   # the same, and then others until a minute is over
package lincheck
