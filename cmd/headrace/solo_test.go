package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"headrace/cmd/headrace/filesystem"
	"headrace/limits"
)

// TestExampleSettings: the example has every setting and every limit, and each of
// its lines is valid.
func TestExampleSettings(t *testing.T) {
	text, err := os.ReadFile("../../systemd/headrace.conf")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("\n[limits user")) {
		t.Error("the example gives somebody limits of their own")
	}
	var on []string
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "#"); is && !strings.HasPrefix(rest, " ") && strings.TrimSpace(rest) != "" {
			line = rest
		}
		on = append(on, line)
	}
	path := filepath.Join(t.TempDir(), "headrace.conf")
	if err := os.WriteFile(path, []byte(strings.Join(on, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	var f soloFlags
	cmd := &cobra.Command{}
	f.define(cmd)
	defineBeside(cmd, new(filesystem.StartFlags))
	if err := cmd.ParseFlags([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	s, err := f.load(cmd.Flags())
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]string{}
	for _, row := range s.Tables()[0].Rows {
		from[row[0].Text] = row[2].Text
	}
	for _, name := range settingNames(cmd.Flags()) {
		if (from[name] == "" || from[name] == "default") && !strings.HasPrefix(name, "dfs-") {
			t.Errorf("the example does not have %s", name)
		}
	}
	for _, name := range limits.Names() {
		if !strings.Contains(string(text), "\n#"+name+" = ") {
			t.Errorf("the example does not have the limit %s", name)
		}
	}
}
