package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"headrace/cmd/headrace/token"
	"headrace/wire"
)

// tokenName is the file in the state directory that is used when no other is named.
const tokenName = "cluster-token"

func tokenFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "token-file", "", "the `FILE` with the cluster's token, readable by its owner only (default: "+tokenName+" in the state directory)")
}

// tokenFile returns the file with the token.
func (a clusterVerbs) tokenFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	dir, err := wire.StateDirForDaemon(a.stateDir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, tokenName), nil
}

// token returns what the file holds.
func (a clusterVerbs) token(flag string) (string, error) {
	all, err := a.tokens(flag)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// tokens returns the token, and the one that is accepted as well, if there is one.
func (a clusterVerbs) tokens(flag string) ([]string, error) {
	file, err := a.tokenFile(flag)
	if err != nil {
		return nil, err
	}
	return token.ReadAll(file, "headrace manager")
}

// madeTokens does as tokens, for the one program that makes the file when it is not there.
func (a clusterVerbs) madeTokens(flag string) ([]string, error) {
	file, err := a.tokenFile(flag)
	if err != nil {
		return nil, err
	}
	made, err := token.Make(file)
	if err != nil {
		return nil, err
	}
	if made {
		a.Say("a token was made in %s; nodes and schedulers need a copy of that file", file)
	}
	return token.ReadAll(file, "headrace manager")
}
