package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headrace/cli"
	"headrace/trace"
)

// sourceForms are how a trace can be named.
const sourceForms = `  google2011:DIR         Google's trace of 2011 as published; DIR has task_events
  swim:FILE              jobs in the format of SWIM
  swim:facebook-day      a day of Facebook's cluster, which comes with this program
  csv:FILE               our own CSV, one task a line: see headrace trace convert
  yarn:PATH              answers or logs of YARN's ResourceManager, a file or a
                         directory of them
  synthetic:google-day   a day made up after what is published of Google's
  synthetic:FILE         a day of your own: see headrace trace generate`

// traceFormats are what a source may begin with.
var traceFormats = []string{"google2011", "swim", "csv", "yarn", "synthetic"}

// source completes the name of a trace: where it has no format in front, the
// file or directory is looked at, and what is taken from that is said.
func (a simVerbs) source(name string) (string, error) {
	if name == "" {
		return "", cli.UsageErrorf("the trace is missing: name a file, a directory, or synthetic:google-day")
	}
	if format, _, found := strings.Cut(name, ":"); found && isFormat(format) {
		return name, nil
	}
	format, err := guessFormat(name)
	if err != nil {
		return "", err
	}
	a.say("%s: taken for %s:%s", name, format, name)
	return format + ":" + name, nil
}

// carried are the traces that come with this program, with their formats.
var carried = map[string]string{trace.GoogleDayName: "synthetic", "facebook-day": "swim"}

func isFormat(s string) bool { return slices.Contains(traceFormats, s) }

func guessFormat(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if format := carried[name]; format != "" {
			return format, nil
		}
		if format, rest, found := strings.Cut(name, ":"); found && rest != "" && !strings.Contains(format, "/") {
			return "", cli.UsageErrorf("trace %s: there is no format %q; there are %s", name, format, strings.Join(traceFormats, ", "))
		}
		return "", fmt.Errorf("trace %s: there is no such file", name)
	case err != nil:
		return "", err
	case info.IsDir():
		return guessDir(name)
	}
	if format := formatOfFile(name); format == "yarn" && isDay(name) {
		return "synthetic", nil
	} else if format != "" {
		return format, nil
	}
	return "", cli.UsageErrorf("trace %s: its name does not tell what it is; put the format in front, as in csv:%s (there are %s)",
		name, name, strings.Join(traceFormats, ", "))
}

// guessDir goes by what is in a directory.
func guessDir(name string) (string, error) {
	if info, err := os.Stat(filepath.Join(name, "task_events")); err == nil && info.IsDir() {
		return "google2011", nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if formatOfFile(e.Name()) == "yarn" {
			return "yarn", nil
		}
	}
	return "", cli.UsageErrorf("trace %s: the directory has neither task_events (google2011) nor files *.json or *.log (yarn)", name)
}

// isDay reports whether a file looks like the parameters of a synthetic day.
func isDay(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return err == nil && bytes.Contains(head, []byte(`"bands"`)) && bytes.Contains(head, []byte(`"core_hours"`))
}

// formatOfFile goes by the name of a file; empty: it does not tell.
func formatOfFile(name string) string {
	name = strings.ToLower(filepath.Base(name))
	name = strings.TrimSuffix(name, ".gz")
	switch filepath.Ext(name) {
	case ".csv":
		return "csv"
	case ".tsv":
		return "swim"
	case ".json", ".log":
		return "yarn"
	}
	if strings.Contains(name, ".log.") { // rotated: rm.log.1, rm.log.2026-11-21
		return "yarn"
	}
	return ""
}
