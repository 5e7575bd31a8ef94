package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"connectrpc.com/connect"

	"headrace/internal/accounts"
)

// Kinds of errors that a request can meet; test with errors.Is.
var (
	ErrNotFound = errors.New("no such task")
	ErrState    = errors.New("not possible now")
	ErrInput    = errors.New("cannot be accepted")
	ErrDenied   = errors.New("not allowed")
	ErrBusy     = errors.New("too much")
	ErrStopping = errors.New("the daemon is ending; ask again when it is back")
)

// Refusal returns an ErrInput that says what to do.
func Refusal(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInput, fmt.Sprintf(format, args...))
}

// Kind is a kind of errors and the code that tells clients of it.
type Kind struct {
	Err  error
	Code connect.Code
}

// kinds are those of this package and of package context.
var kinds = []Kind{
	{ErrNotFound, connect.CodeNotFound},
	{ErrInput, connect.CodeInvalidArgument},
	{ErrDenied, connect.CodePermissionDenied},
	{ErrBusy, connect.CodeResourceExhausted},
	{ErrStopping, connect.CodeUnavailable},
	{accounts.ErrSilent, connect.CodeUnavailable},
	{accounts.ErrUnknown, connect.CodeUnavailable},
	{ErrState, connect.CodeFailedPrecondition},
}

var broken = []Kind{
	{context.Canceled, connect.CodeCanceled},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
}

// Coded gives an error the code of its kind, of this package or of others. What
// merely does not fit the state comes last: it may be so because the request was
// broken off.
func Coded(err error, others ...Kind) error {
	var already *connect.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	all := slices.Concat(kinds, others, broken)
	for _, last := range []bool{false, true} {
		for _, k := range all {
			if last == (k.Code == connect.CodeFailedPrecondition) && errors.Is(err, k.Err) {
				return connect.NewError(k.Code, err)
			}
		}
	}
	return connect.NewError(connect.CodeInternal, err)
}

const maxLabel = 200

// CheckLabel refuses a name that people could not read.
func CheckLabel(what, s string) error {
	if len(s) > maxLabel {
		return Refusal("the %s has %d bytes; at most %d are allowed", what, len(s), maxLabel)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return Refusal("the %s %q contains control characters; leave them out", what, s)
	}
	return nil
}

// Label returns of s what a name may have, and keeps nothing else of it.
func Label(s string) string {
	if len(s) <= maxLabel {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:maxLabel], ""))
}

// Shown returns a name as the protocol can carry it.
func Shown(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
