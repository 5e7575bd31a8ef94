package traces

import (
	"bytes"
	"compress/gzip"
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

// SourceForms are how a trace can be named.
const SourceForms = `  google2011:DIR         Google's trace of 2011 as published; DIR has task_events
  google2019:DIR         Google's trace of 2019; DIR has files instance_events*
  alibaba2018:DIR        Alibaba's trace of 2018; DIR has batch_task.*
  swf:FILE               the Standard Workload Format
  slurm:FILE             what Slurm's sacct --parsable2 prints
  kubernetes:PATH        pods as kubectl get pods -o json prints them, a file or a
                         directory of them
  swim:FILE              jobs in the format of SWIM
  swim:facebook-day      a day of Facebook's cluster, which comes with this program
  csv:FILE               our own CSV, one task a line: see headrace trace convert
  yarn:PATH              answers or logs of YARN's ResourceManager, a file or a
                         directory of them
  sls:FILE               jobs of Hadoop's Scheduler Load Simulator
  rumen:FILE             jobs as Hadoop's Rumen writes them
  synthetic:google-day   a day made up after what is published of Google's
  synthetic:FILE         a day of your own: see headrace trace generate`

// formats are what a source may begin with.
var formats = []string{"google2011", "google2019", "alibaba2018", "swf", "slurm", "kubernetes", "swim", "csv", "yarn", "sls", "rumen", "synthetic"}

// source completes the name of a trace: where it has no format in front, the
// file or directory is looked at, and what is taken from that is said.
func (a verbs) source(name string) (string, error) {
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
	a.Say("%s: taken for %s:%s", name, format, name)
	return format + ":" + name, nil
}

// carried are the traces that come with this program, with their formats.
var carried = map[string]string{trace.GoogleDayName: "synthetic", "facebook-day": "swim"}

func isFormat(s string) bool { return slices.Contains(formats, s) }

func guessFormat(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if format := carried[name]; format != "" {
			return format, nil
		}
		if format, rest, found := strings.Cut(name, ":"); found && rest != "" && !strings.Contains(format, "/") {
			return "", cli.UsageErrorf("trace %s: there is no format %q; there are %s", name, format, strings.Join(formats, ", "))
		}
		return "", fmt.Errorf("trace %s: there is no such file", name)
	case err != nil:
		return "", err
	case info.IsDir():
		return guessDir(name)
	}
	if format := formatOfText(name, formatOfFile(name)); format != "" {
		return format, nil
	}
	return "", cli.UsageErrorf("trace %s: its name does not tell what it is; put the format in front, as in csv:%s (there are %s)",
		name, name, strings.Join(formats, ", "))
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
		switch file := e.Name(); {
		case strings.HasPrefix(file, "instance_events"):
			return "google2019", nil
		case strings.HasPrefix(file, "batch_task."):
			return "alibaba2018", nil
		}
	}
	for _, e := range entries {
		if format := formatOfText(filepath.Join(name, e.Name()), formatOfFile(e.Name())); format == "yarn" || format == "kubernetes" {
			return format, nil
		}
	}
	return "", cli.UsageErrorf("trace %s: the directory has neither task_events (google2011), instance_events* (google2019), batch_task.* (alibaba2018) "+
		"nor files *.json or *.log (yarn, kubernetes)", name)
}

// formatOfText looks into a file whose name alone leaves its format open. Format is what
// the name says.
func formatOfText(name, format string) string {
	if format != "" && format != "yarn" && format != "csv" || strings.Contains(filepath.Base(name), ".log") {
		return format
	}
	text := beginning(name)
	has := func(all ...string) bool {
		for _, s := range all {
			if !bytes.Contains(text, []byte(s)) {
				return false
			}
		}
		return true
	}
	switch line, _, _ := bytes.Cut(text, []byte("\n")); {
	case format != "yarn" && bytes.HasPrefix(line, []byte("JobID|")):
		return "slurm"
	case format != "yarn":
	case has(`"bands"`, `"core_hours"`):
		return "synthetic"
	case has(`"job.tasks"`):
		return "sls"
	case has(`"mapTasks"`, `"submitTime"`):
		return "rumen"
	case has(`"metadata"`, `"spec"`, `"containers"`):
		return "kubernetes"
	}
	return format
}

// beginning returns the first bytes of a file, unpacked; none if it cannot be read.
func beginning(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil
		}
	}
	text, _ := io.ReadAll(io.LimitReader(r, 1<<16)) // what there is of it
	return text
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
	case ".swf":
		return "swf"
	case ".json", ".jsonl", ".ndjson", ".log":
		return "yarn"
	}
	if strings.Contains(name, ".log.") { // rotated: rm.log.1, rm.log.2026-11-21
		return "yarn"
	}
	return ""
}
