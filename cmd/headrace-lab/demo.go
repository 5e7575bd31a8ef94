package main

import (
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/lab/demo"
)

func demoVerb(a *app) *cobra.Command {
	var o demo.Options
	var bytes cli.Size
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch tasks being preempted, one policy after the other",
		Long: `Demo runs a job of low priority that parses real text from this machine, lets an
urgent one arrive, and shows what each policy does to both. At the end there are
a table and a page to look at. It starts daemons of its own and cleans up.`,
		Example: `  headrace-lab demo
  headrace-lab demo --size 500M --html out/demo.html`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Output = a.output()
			o.Size = int64(bytes)
			return demo.Show(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.Var(&bytes, "size", "how much text to parse (default: by machine)")
	flags.StringVar(&o.Text, "text", "", "take the text from this `DIR` (default: Go's source tree, else /usr/share and /usr/include)")
	flags.StringVar(&o.HTML, "html", "", "a `FILE` for the page (default out/demo.html)")
	placeFlags(cmd, &o.Dir, &o.SoloFlags)
	return cmd
}
