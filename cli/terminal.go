package cli

import (
	"os"

	"golang.org/x/term"

	"headrace/report"
)

// AsTerminal returns the terminal behind v, and false when it is something else.
func AsTerminal(v any) (*os.File, bool) {
	f, ok := v.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return f, true
}

// TerminalOf returns what can be shown where v goes.
func TerminalOf(v any) report.Terminal {
	width, _ := SizeOf(v)
	_, is := AsTerminal(v)
	return report.NewTerminal(is, width, os.Getenv)
}

// SizeOf returns the size of a terminal, zero when unknown or without limit.
func SizeOf(v any) (width, height int) {
	f, is := AsTerminal(v)
	if !is {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
