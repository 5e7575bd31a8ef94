package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func program(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhereCRIUIsLookedFor(t *testing.T) {
	dir := t.TempDir()
	inPrefix := program(t, filepath.Join(dir, "prefix/bin/criu"), 0o755)
	onPath := program(t, filepath.Join(dir, "path/criu"), 0o755)
	named := program(t, filepath.Join(dir, "named"), 0o755)
	plain := program(t, filepath.Join(dir, "plain"), 0o644)
	t.Setenv("HEADRACE_CRIU", "")
	t.Setenv("HEADRACE_CRIU_PREFIX", filepath.Join(dir, "prefix"))
	t.Setenv("PATH", filepath.Join(dir, "path"))

	find := func(flag, want string) {
		t.Helper()
		if got, err := findCRIU(flag); err != nil || got != want {
			t.Errorf("found %q, %v, want %q", got, err, want)
		}
	}
	find("", inPrefix)
	find(named, named)
	t.Setenv("HEADRACE_CRIU", named)
	find("", named)
	find(onPath, onPath)
	t.Setenv("HEADRACE_CRIU", "")
	t.Setenv("HEADRACE_CRIU_PREFIX", filepath.Join(dir, "nothing"))
	find("", onPath)
	t.Setenv("PATH", filepath.Join(dir, "nothing"))
	find("", "")

	for flag, want := range map[string]string{plain: "not a program", dir: "not a program", filepath.Join(dir, "none"): "no such file"} {
		if got, err := findCRIU(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--criu %s: %q, %v, want an error with %q", flag, got, err, want)
		}
	}
	t.Setenv("HEADRACE_CRIU", filepath.Join(dir, "none"))
	if got, err := findCRIU(""); err == nil {
		t.Errorf("HEADRACE_CRIU that is not there: %q", got)
	}
}

func TestWhereTheShimIsLookedFor(t *testing.T) {
	dir := t.TempDir()
	onPath := program(t, filepath.Join(dir, "headrace-shim"), 0o755)
	t.Setenv("PATH", dir)
	if got, err := findShim(""); err != nil || got != onPath {
		t.Errorf("found %q, %v, want %q", got, err, onPath)
	}
	t.Setenv("PATH", "")
	if got, err := findShim(""); err == nil || !strings.Contains(err.Error(), "--shim") {
		t.Errorf("without one: %q, %v", got, err)
	}
	if got, err := findShim(onPath); err != nil || got != onPath {
		t.Errorf("named: %q, %v", got, err)
	}
}
