package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCommandLine: what is shown is what a shell makes the same command of.
func TestCommandLine(t *testing.T) {
	argv := []string{"headrace", "sim", "--nodes-for", "production 95% < 10m", "--policy", "", "--priority-by", "user:etl-*=low", "it's", `a\b`, "two\nlines\t'\\x", "bell\a", "$HOME", "plain,=:@%+-./_"}
	line := CommandLine(argv)
	if !strings.HasPrefix(line, "headrace sim --nodes-for 'production 95% < 10m' --policy '' --priority-by 'user:etl-*=low' ") || strings.ContainsAny(line, "\n\t\a") {
		t.Errorf("the command is shown as %s", line)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(bash, "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, argv) {
		t.Errorf("bash makes of it %q, want %q", got, argv)
	}
}
