package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headrace"
	"headrace/internal/linux"
)

// begunFile is where a supervisor notes in a task's directory when it began to start the
// command. It need not outlive the machine: then the command has not either.
const begunFile = "begun"

// MarkBegun notes in a task's directory that its command is about to be started.
func MarkBegun(dir string) error {
	text := strconv.FormatInt(int64(linux.Clock()), 10)
	if err := os.WriteFile(filepath.Join(dir, begunFile), []byte(text), 0o600); err != nil {
		return fmt.Errorf("note that the command begins: %w", err)
	}
	return nil
}

// Begun reports whether a supervisor of the task may have started its command since a time
// of the present boot (CLOCK_BOOTTIME). It tells where nobody is left who would know.
func (r *Runtime) Begun(id headrace.TaskID, since time.Duration) (bool, error) {
	text, err := os.ReadFile(filepath.Join(r.TaskDir(id), begunFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, opError("look at the start of", id, err)
	}
	at, err := strconv.ParseInt(string(text), 10, 64)
	return err != nil || time.Duration(at) >= since, nil // half a mark is of one who died while making it
}
