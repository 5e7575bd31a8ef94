package criu

import (
	"io"
	"os"
	"strings"
)

const (
	// logTail is how much of a log's end is read, and maxErrors how many of its
	// last errors are kept.
	logTail   = 256 << 10
	maxErrors = 6
)

var (
	// errorLine is the line of an error, in CRIU itself ("Error (criu/x.c:1): ")
	// or in the code that it runs inside a process ("pie: 42: Error (...): ").
	errorLine = form(`^(?:pie:)?\s*(?:\d+: )?\s*Error \([^)]*\): (.*)`)

	// causeLine is a warning that is the cause of what follows.
	causeLine = form(`^Warn  \([^)]*\): (Unable to interrupt task: .*)`)

	// noise is what stands in every log, or only repeats that all failed.
	noise = form(`RLIMIT_NOFILE|^Dumping FAILED|^Restoring FAILED|failed with -1$|iptables.*-save`)
)

// LastErrors returns the last errors of a log that CRIU has written, oldest
// first and separated by " | ", without file names and without what every log
// holds. It is empty when there are none, or no readable log.
func LastErrors(logfile string) string {
	f, err := os.Open(logfile)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, end-logTail), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, logTail))
	return strings.Join(parseErrors(string(b)), " | ")
}

func parseErrors(log string) []string {
	var found []string
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		m := errorLine().FindStringSubmatch(line)
		if m == nil {
			m = causeLine().FindStringSubmatch(line)
		}
		if m == nil || noise().MatchString(m[1]) {
			continue
		}
		text := strings.Join(strings.Fields(m[1]), " ")
		if text != "" && (len(found) == 0 || found[len(found)-1] != text) {
			found = append(found, text)
		}
	}
	return found[max(0, len(found)-maxErrors):]
}
