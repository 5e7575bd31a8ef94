package traces

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completeSource completes the name of a trace: formats, and files, with a format in
// front or without.
func completeSource(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	format, path, found := strings.Cut(typed, ":")
	if found = found && isFormat(format); !found {
		format, path = "", typed
	}
	candidates := []string{"synthetic:google-day", "swim:facebook-day"}
	if !found {
		candidates = nil
		for _, f := range formats {
			candidates = append(candidates, f+":")
		}
	}
	completions := slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, typed) })
	for _, name := range filesLike(path) {
		if found {
			name = format + ":" + name
		}
		completions = append(completions, name)
	}
	return completions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
}

// filesLike returns the files and directories whose names begin with path.
func filesLike(path string) []string {
	names, err := filepath.Glob(escapeGlob(path) + "*")
	if err != nil {
		return nil
	}
	for i, name := range names {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			names[i] += "/"
		}
	}
	return names
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// CompleteSources completes a flag with the name of a trace.
func CompleteSources(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completeSource); err != nil {
		panic(err)
	}
}
