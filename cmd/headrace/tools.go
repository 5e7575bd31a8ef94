package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"headrace/cli"
	"headrace/internal/criu"
)

// findShim returns the absolute path of headrace-shim: flag, else beside this
// program, else on PATH.
func findShim(flag string) (string, error) {
	const name = "headrace-shim"
	if flag != "" {
		return executable("--shim", flag)
	}
	path, err := cli.FindProgram(name)
	if err != nil {
		return "", fmt.Errorf("%w, or name it with --shim", err)
	}
	return executable(name, path)
}

// findCRIU returns the absolute path of CRIU: flag, else as package criu finds it.
// Empty: there is none that would do, and why says what to do about that.
func findCRIU(flag string) (path string, why, err error) {
	if flag != "" {
		path, err = executable("--criu", flag)
		return path, nil, err
	}
	found, why := criu.Find()
	switch {
	case why == nil:
		path, err = filepath.Abs(found.Path)
		return path, nil, err
	case os.Getenv("HEADRACE_CRIU") != "":
		return "", nil, why
	}
	return "", why, nil
}

// checkShim makes sure that a program is headrace-shim: another one would take the
// tasks and say nothing.
func checkShim(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil || info.Path != "headrace/cmd/headrace-shim" {
		return fmt.Errorf("%s is not headrace-shim: build that with make, or name it with --shim", path)
	}
	return nil
}

// executable is the absolute path of a program that what names.
func executable(what, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, path, err)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s %s: there is no such file", what, path)
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s %s: it is not a program", what, path)
	}
	return abs, nil
}
