package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"headrace/report"
)

// Version is that of all programs; the linker sets it.
var Version = "unknown"

// Build is what a program was made from.
type Build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// ThisBuild returns that of this program.
func ThisBuild() Build {
	return Build{Version: Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
}

// Table shows it as that of a program.
func (b Build) Table(program string) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: program}, {Title: b.Version}}}
	t.Add(report.Str("built with"), report.Str(b.Go+" for "+b.System))
	return t
}

// FindProgram returns the absolute path of another of Headrace's programs: beside this
// one, else on PATH.
func FindProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside %s nor on PATH: build it with make build", name, self)
	}
	return filepath.Abs(path)
}

// CompletionVerb writes the completion scripts of a program, which complete what it says.
func CompletionVerb(program, what string, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Write the completion script of a shell",
		Long:  "Completion writes a script that makes the shell complete " + what + ".",
		Example: fmt.Sprintf(`  source <(%[1]s completion bash)
  %[1]s completion zsh > "${fpath[1]}/_%[1]s"
  %[1]s completion fish > ~/.config/fish/completions/%[1]s.fish`, program),
		Args:      Takes(1, 1, "the name of a shell"),
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return UsageErrorf("no completion for %q: want bash, zsh or fish", args[0])
		},
	}
}
