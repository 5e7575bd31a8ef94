package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/cli"
	"headrace/internal/linux"
	"headrace/wire"
)

// checkPaths refuses at once what would fail when the task's turn comes, at night
// say. It looks with the caller's eyes; what is true then counts. For another user
// it only looks whether things are there.
func checkPaths(req *wire.RunRequest) error {
	may := func(path string, mode uint32) error {
		if req.User != "" {
			mode = unix.F_OK
		}
		if err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS); err != nil {
			return &fs.PathError{Op: "access", Path: path, Err: err}
		}
		return nil
	}
	if info, err := os.Stat(req.Cwd); err != nil {
		return cli.UsageErrorf("--cwd: %w", err)
	} else if !info.IsDir() {
		return cli.UsageErrorf("--cwd %s: it is not a directory", req.Cwd)
	}
	if err := may(req.Cwd, unix.X_OK); err != nil {
		return cli.UsageErrorf("--cwd: %w", err)
	}
	if linux.IsDescriptor(req.Stdin) {
		return cli.UsageErrorf("--stdin %s: that is a descriptor of this program, which the command has not: hand over with --stdin - what is piped to headrace run", req.Stdin)
	}
	if linux.IsDescriptor(req.Output) {
		return cli.UsageErrorf("--output %s: that is a descriptor of this program, which the command has not: name a file, or see with headrace run -f what it writes", req.Output)
	}
	if req.Stdin != "" {
		if err := may(req.Stdin, unix.R_OK); err != nil {
			return cli.UsageErrorf("--stdin: %w", err)
		}
	}
	if req.Output == "" {
		return nil
	}
	err := may(req.Output, unix.W_OK)
	if errors.Is(err, fs.ErrNotExist) { // it is made
		err = may(filepath.Dir(req.Output), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return cli.UsageErrorf("--output: %w", err)
	}
	return nil
}
