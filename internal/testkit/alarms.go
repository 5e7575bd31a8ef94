package testkit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	alarmed  = regexp.MustCompile(`(headrace_[a-z_]+)(?:\{([^}]*)\})?`)
	selector = regexp.MustCompile(`([a-z_]+)(=|!=)"([^"]*)"`)
)

// WantAlarms looks that each metric which mine accepts of the table of alarms in docs/operations.md is in what a daemon serves at
// /metrics, with the labels that stand there.
func WantAlarms(t testing.TB, served string, mine func(metric string) bool) {
	t.Helper()
	root, err := filepath.Abs(".")
	for err == nil && root != "/" {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\nWhat is worth an alarm:\n\n")
	if table, _, _ = strings.Cut(table, "\n\n"); !found {
		t.Fatal("there is no table of alarms in docs/operations.md")
	}
	seen := 0
	for _, m := range alarmed.FindAllStringSubmatch(table, -1) {
		if !mine(m[1]) {
			continue
		}
		seen++
		if !regexp.MustCompile(`(?m)^` + m[1] + `[ {]`).MatchString(served) {
			t.Errorf("an alarm is on %s, which is not served", m[0])
		}
		for _, s := range selector.FindAllStringSubmatch(m[2], -1) {
			label := s[1] + `="`
			if s[2] == "=" {
				label += s[3] + `"`
			}
			if !regexp.MustCompile(`(?m)^` + m[1] + `\{[^}]*\b` + regexp.QuoteMeta(label)).MatchString(served) {
				t.Errorf("an alarm is on %s, and there is no %s", m[0], label)
			}
		}
	}
	if seen == 0 {
		t.Error("no alarm is on what is served")
	}
}
