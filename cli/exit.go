package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/wire"
)

// Exit codes, beside 0 and those of tasks.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNoDaemon    = 3
	ExitNotFound    = 4
	ExitWaits       = 5
	ExitInterrupted = 130
)

// ExitError ends the program with a code of its own. A nil err says nothing:
// what there was to say has been said.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error that ends the program with a code; err may be nil.
func Exit(code int, err error) error { return &ExitError{Code: code, Err: err} }

// UsageErrorf says that the program was called wrongly.
func UsageErrorf(format string, args ...any) error {
	return Exit(ExitUsage, fmt.Errorf(format, args...))
}

// Outcome returns the exit code for err and the line to print, empty for none.
func Outcome(err error) (code int, line string) {
	if err == nil {
		return 0, ""
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		if exit.Err == nil {
			return exit.Code, ""
		}
		return exit.Code, OneLine(err.Error())
	}
	var none *wire.NoDaemonError
	if errors.As(err, &none) {
		return ExitNoDaemon, OneLine(none.Error())
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted, "interrupted"
	}
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return ExitFailure, "the daemon does not know this call: it is older than this program; start it again (tasks go on)"
	}
	if remote := new(connect.Error); errors.As(err, &remote) && !connect.IsWireError(err) {
		if connect.CodeOf(err) == connect.CodeInternal && errors.Is(err, proto.Error) {
			return ExitUsage, "what was given is not UTF-8 and cannot be sent to the daemon"
		}
		return ExitNoDaemon, OneLine(unanswered(remote))
	}
	return remoteCode(err), OneLine(message(err))
}

const goneBefore = "the daemon went away before it had answered: see headrace ps for what has become of it"

// unanswered tells what kept the daemon from answering.
func unanswered(err *connect.Error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return goneBefore
	}
	return err.Message()
}

func remoteCode(err error) int {
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		return ExitNotFound
	case connect.CodeInvalidArgument:
		return ExitUsage
	case connect.CodeUnavailable, connect.CodeCanceled:
		return ExitNoDaemon
	}
	return ExitFailure
}

// message returns what the daemon said, without the name of the protocol's code.
func message(err error) string {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return err.Error()
	}
	if remote.Code() == connect.CodeCanceled { // nobody here has interrupted it
		return goneBefore
	}
	text := remote.Message()
	if text == "" {
		text = remote.Code().String()
	}
	return strings.Replace(err.Error(), remote.Error(), text, 1)
}

// OneLine keeps a text to one line, from moving the cursor and from changing
// the direction of writing.
func OneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}
