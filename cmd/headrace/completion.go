package main

import (
	"github.com/spf13/cobra"
)

func completionVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Write the completion script of a shell",
		Long: `Completion writes a script that makes the shell complete verbs, flags and the
ids of tasks.`,
		Example: `  source <(headrace completion bash)
  headrace completion zsh > "${fpath[1]}/_headrace"
  headrace completion fish > ~/.config/fish/completions/headrace.fish`,
		Args:      takes(1, 1, "the name of a shell"),
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(a.out)
			case "fish":
				return cmd.Root().GenFishCompletion(a.out, true)
			}
			return usageErrorf("no completion for %q: want bash, zsh or fish", args[0])
		},
	}
}
