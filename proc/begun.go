package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/internal/linux"
)

// begunFile is where a supervisor notes in a task's directory when, and in which boot of the machine, it last began to
// start or restore the command.
const begunFile = "begun"

// MarkBegun notes in a task's directory that its command is about to be started. That need not outlive the machine: the
// command has not either, and is started from the beginning.
func MarkBegun(dir string) error { return markBegun(dir, os.WriteFile) }

// MarkRestored notes durably in a task's directory that its command is about to be restored: after a restart of the
// machine this tells whether it has run since its checkpoint.
func MarkRestored(dir string) error { return markBegun(dir, linux.WriteFileDurably) }

func markBegun(dir string, write func(string, []byte, os.FileMode) error) error {
	boot, err := linux.BootID()
	if err == nil {
		err = write(filepath.Join(dir, begunFile), fmt.Appendf(nil, "%d %s\n", linux.Clock(), strings.TrimSpace(boot)), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note that the command begins: %w", err)
	}
	return nil
}

// Begun reports whether a supervisor of the task may have started or restored its command since a time of a boot
// (CLOCK_BOOTTIME). It tells where nobody is left who would know.
func (r *Runtime) Begun(id headrace.TaskID, boot string, since time.Duration) (bool, error) {
	text, err := os.ReadFile(filepath.Join(r.TaskDir(id), begunFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, opError("look at the start of", id, err)
	}
	clock, of, whole := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	at, err := strconv.ParseInt(clock, 10, 64)
	if err != nil || !whole {
		return true, nil // half a mark is of one who died while making it
	}
	return of == strings.TrimSpace(boot) && time.Duration(at) >= since, nil
}
