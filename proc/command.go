package proc

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// maxCommand bounds argv and environment together, as the kernel does.
	maxCommand = 2 << 20
	// maxArgument is the kernel's limit for one string (MAX_ARG_STRLEN).
	maxArgument = 128<<10 - 1
)

// CheckCommand says why no program can be started with these arguments and this
// environment, if that is known beforehand.
func CheckCommand(argv, env []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("there is no command; give one after --")
	}
	total := 0
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			total += len(s) + 1 + 8 // with its end and a pointer, as the kernel counts
			if len(s) > maxArgument {
				return fmt.Errorf("an argument or variable of %d bytes is longer than the kernel takes (%d); put it in a file", len(s), maxArgument)
			}
			if strings.IndexByte(s, 0) >= 0 {
				return errors.New("an argument or variable contains a NUL byte; no program could get it")
			}
		}
	}
	if total > maxCommand {
		return fmt.Errorf("arguments and environment have %d bytes, more than %d; put them in a file", total, maxCommand)
	}
	return nil
}
