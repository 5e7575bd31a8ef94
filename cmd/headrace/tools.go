package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// findCRIU is the absolute path of CRIU: flag, else $HEADRACE_CRIU, else in the
// prefixes of scripts/get-criu, else on PATH. Empty: there is none.
func findCRIU(flag string) (string, error) {
	if flag != "" {
		return executable("--criu", flag)
	}
	if path := os.Getenv("HEADRACE_CRIU"); path != "" {
		return executable("HEADRACE_CRIU", path)
	}
	for _, prefix := range criuPrefixes() {
		path := filepath.Join(prefix, "bin", "criu")
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return executable("CRIU", path)
	}
	if path, err := exec.LookPath("criu"); err == nil {
		return filepath.Abs(path)
	}
	return "", nil
}

func criuPrefixes() []string {
	const system = "/opt/headrace/criu"
	if chosen := os.Getenv("HEADRACE_CRIU_PREFIX"); chosen != "" {
		return []string{chosen}
	}
	if os.Geteuid() == 0 {
		return []string{system}
	}
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(os.Getenv("HOME"), ".local", "share")
	}
	return []string{filepath.Join(data, "headrace", "criu"), system}
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
