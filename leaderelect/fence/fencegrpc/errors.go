package fencegrpc

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// domain is the domain of each ErrorInfo.
const domain = "github.com/setpoint-go/setpoint"

// stale is the reason of an ErrorInfo of a stale term.
const stale = "STALE"

// callError is an error with a status of its own.
type callError struct {
	code codes.Code
	err  error
}

func (e *callError) Error() string              { return e.err.Error() }
func (e *callError) Unwrap() error              { return e.err }
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// staleError is a *fence.StaleError that a server has sent.
type staleError struct {
	*fence.StaleError
	status *status.Status
}

func (e *staleError) Unwrap() error              { return e.StaleError }
func (e *staleError) GRPCStatus() *status.Status { return e.status }

// received returns the error of a call as a *fence.StaleError, if a [Server] says that.
func received(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.FailedPrecondition {
		return err
	}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.Domain != domain || info.Reason != stale {
			continue
		}
		term, err1 := strconv.ParseUint(info.Metadata["term"], 10, 64)
		have, err2 := strconv.ParseUint(info.Metadata["have"], 10, 64)
		if err1 == nil && err2 == nil && have > term {
			return &staleError{&fence.StaleError{Lease: info.Metadata["lease"], Term: term, Have: have}, s}
		}
	}
	return err
}

// refuse returns the status of a call that is not served.
func refuse(no *claim.Refusal) error {
	code, info := codes.InvalidArgument, &errdetails.ErrorInfo{Domain: domain}
	switch no.Reason {
	case claim.Missing:
		info.Reason = "MISSING"
	case claim.Malformed:
		info.Reason = "MALFORMED"
	case claim.OtherLease:
		code, info.Reason = codes.PermissionDenied, "OTHER_LEASE"
	case claim.TooManyLeases:
		code, info.Reason = codes.ResourceExhausted, "TOO_MANY_LEASES"
	case claim.Stale:
		code, info.Reason = codes.FailedPrecondition, stale
		if e := new(fence.StaleError); errors.As(no.Err, &e) {
			info.Metadata = map[string]string{
				"lease": e.Lease, "term": strconv.FormatUint(e.Term, 10), "have": strconv.FormatUint(e.Have, 10),
			}
		}
	case claim.Ended:
		if code = codes.Canceled; errors.Is(no.Err, context.DeadlineExceeded) {
			code = codes.DeadlineExceeded
		}
		return status.Error(code, no.Err.Error())
	}
	s, err := status.New(code, no.Err.Error()).WithDetails(info)
	if err != nil { // a lease that is no UTF-8 has no place in a message
		return status.Error(code, no.Err.Error())
	}
	return s.Err()
}
