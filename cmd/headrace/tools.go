package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"headrace/internal/criu"
)

// findShim is the absolute path of headrace-shim: flag, else beside this
// program, else on PATH.
func findShim(flag string) (string, error) {
	const name = "headrace-shim"
	if flag != "" {
		return executable("--shim", flag)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find headrace-shim: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find headrace-shim: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(beside); err == nil {
		return executable(name, beside)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("headrace-shim is neither beside %s nor on PATH: build it with make, or name it with --shim", self)
	}
	return filepath.Abs(path)
}

// findCRIU is the absolute path of CRIU: flag, else as package criu finds it.
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
