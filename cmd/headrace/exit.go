package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode"

	"connectrpc.com/connect"

	"headrace/wire"
)

const (
	exitFailure     = 1
	exitUsage       = 2
	exitNoDaemon    = 3
	exitNotFound    = 4
	exitInterrupted = 130
)

// exitError ends the program with a code of its own. A nil err says nothing:
// what there was to say has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// outcome is the exit code for err and the line to print, empty for none.
func outcome(err error) (code int, line string) {
	if err == nil {
		return 0, ""
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err == nil {
			return exit.code, ""
		}
		return exit.code, oneLine(err.Error())
	}
	var none *wire.NoDaemonError
	if errors.As(err, &none) {
		return exitNoDaemon, oneLine(none.Error())
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted, "interrupted"
	}
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return exitFailure, "the daemon does not know this call: it is older than this program; stop it and start headrace solo again (tasks go on)"
	}
	if remote := new(connect.Error); errors.As(err, &remote) && !connect.IsWireError(err) {
		return exitNoDaemon, oneLine(unanswered(remote))
	}
	return remoteCode(err), oneLine(message(err))
}

// unanswered tells what kept the daemon from answering.
func unanswered(err *connect.Error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "the daemon went away before it had answered: see headrace ps for what has become of it"
	}
	return err.Message()
}

func remoteCode(err error) int {
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		return exitNotFound
	case connect.CodeInvalidArgument:
		return exitUsage
	case connect.CodeUnavailable:
		return exitNoDaemon
	case connect.CodeCanceled:
		return exitInterrupted
	}
	return exitFailure
}

// message is what the daemon said, without the name of the protocol's code.
func message(err error) string {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return err.Error()
	}
	text := remote.Message()
	if text == "" {
		text = remote.Code().String()
	}
	return strings.Replace(err.Error(), remote.Error(), text, 1)
}

// oneLine keeps a text to one line, from moving the cursor and from changing
// the direction of writing.
func oneLine(s string) string {
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
