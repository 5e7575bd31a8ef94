package main

import (
	"errors"
	"flag"

	"github.com/spf13/cobra"

	"headrace/lab/slowdisk"
)

// slowDiskVerb serves the modelled disk of the experiments; people do not need it.
func slowDiskVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                slowdisk.Command + " [FLAG...] DIRECTORY MOUNT",
		Short:              "A directory behind a modelled disk with one head",
		Example:            `  headrace-lab slow-disk -h`,
		Args:               cobra.ArbitraryArgs,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := slowdisk.Main(cmd.Context(), args, a.in, a.out); !errors.Is(err, flag.ErrHelp) {
				return err
			}
			return nil
		},
	}
}
