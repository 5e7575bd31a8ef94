package screen

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"headrace/cli"
)

// Keyboard is a terminal whose keys are read one by one. A nil one has none.
type Keyboard struct {
	terminal *os.File
	before   *term.State
}

// KeyboardOf returns the terminal behind in; nil when there is none.
func KeyboardOf(in *os.File) (*Keyboard, error) {
	terminal, is := cli.AsTerminal(in)
	if !is {
		return nil, nil
	}
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return &Keyboard{terminal, before}, nil
}

// take has the terminal deliver each key at once, give as it did before.
func (k *Keyboard) take() {
	if k != nil {
		term.MakeRaw(int(k.terminal.Fd()))
	}
}

func (k *Keyboard) give() {
	if k != nil {
		term.Restore(int(k.terminal.Fd()), k.before)
	}
}

// AwaitQuit returns when q or Ctrl-C is typed, or when there are no more keys. There must be a keyboard.
func (k *Keyboard) AwaitQuit() {
	const ctrlC = 3
	key := make([]byte, 1)
	for {
		if _, err := io.ReadFull(k.terminal, key); err != nil || bytes.Contains([]byte{'q', 'Q', ctrlC}, key) {
			return
		}
	}
}
