package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Become replaces this process by a command, found in this process's PATH, with the
// given environment. It returns only on failure, with the exit code that a shell
// would give.
func Become(argv, env []string) (int, error) {
	path := argv[0]
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return 127, fmt.Errorf("%s: command not found in PATH=%s", path, os.Getenv("PATH"))
		}
		path = found
	}
	err := syscall.Exec(path, argv, env)
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, as a shell would run it
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), env)
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return 127, fmt.Errorf("%s: no such file (or its interpreter is missing)", argv[0])
	case errors.Is(err, syscall.EACCES):
		return 126, fmt.Errorf("%s: no permission to execute it", argv[0])
	}
	return 126, fmt.Errorf("%s: %w", argv[0], err)
}
