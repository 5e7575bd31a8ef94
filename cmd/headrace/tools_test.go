package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func makeProgram(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhichCRIU(t *testing.T) {
	dir := t.TempDir()
	good := makeProgram(t, filepath.Join(dir, "good/bin/criu"), 0o755)
	if err := os.WriteFile(good, []byte("#!/bin/sh\necho Version: 4.2.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := makeProgram(t, filepath.Join(dir, "broken/criu"), 0o755)
	plain := makeProgram(t, filepath.Join(dir, "plain"), 0o644)
	t.Setenv("HEADRACE_CRIU", "")
	t.Setenv("HEADRACE_CRIU_PREFIX", filepath.Join(dir, "good"))

	for flag, want := range map[string]string{"": good, broken: broken} {
		if got, why, err := findCRIU(flag); err != nil || why != nil || got != want {
			t.Errorf("--criu %q: %q, %v, %v, want %q", flag, got, why, err, want)
		}
	}
	for flag, want := range map[string]string{plain: "not a program", dir: "not a program", filepath.Join(dir, "none"): "no such file"} {
		if got, _, err := findCRIU(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--criu %s: %q, %v, want an error with %q", flag, got, err, want)
		}
	}

	// One that was named and does not work is an error, one that is only lying
	// around is not.
	t.Setenv("HEADRACE_CRIU", broken)
	if got, _, err := findCRIU(""); err == nil {
		t.Errorf("a broken HEADRACE_CRIU: %q", got)
	}
	t.Setenv("HEADRACE_CRIU", "")
	t.Setenv("HEADRACE_CRIU_PREFIX", filepath.Join(dir, "nothing"))
	t.Setenv("PATH", filepath.Join(dir, "broken"))
	if got, why, err := findCRIU(""); got != "" || why == nil || err != nil {
		t.Errorf("a broken one on PATH: %q, %v, %v, want none and why", got, why, err)
	}
}

func TestWhereTheShimIsLookedFor(t *testing.T) {
	dir := t.TempDir()
	onPath := makeProgram(t, filepath.Join(dir, "headrace-shim"), 0o755)
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
