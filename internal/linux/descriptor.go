package linux

import (
	"path/filepath"
	"strings"
)

// IsDescriptor reports whether an absolute path, as it is written, is a descriptor of whoever opens it, or of one
// process: /dev/stdin, /dev/fd/N, /proc/PID/fd/N and the like. It looks at no file.
func IsDescriptor(path string) bool {
	path = filepath.Clean(path)
	switch path {
	case "/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	if strings.HasPrefix(path, "/dev/fd/") {
		return true
	}
	proc, is := strings.CutPrefix(path, "/proc/")
	parts := strings.Split(proc, "/")
	if len(parts) > 3 && parts[1] == "task" {
		parts = parts[2:]
	}
	return is && len(parts) > 2 && parts[1] == "fd"
}
