package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headrace/config"
)

// Format is how results are written: the value of --format.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatJSON  Format = "json"
)

// Define adds --format to flags, which are cmd's.
func (f *Format) Define(cmd *cobra.Command, flags *pflag.FlagSet) {
	*f = FormatTable
	flags.Var(f, "format", "table or json")
	CompleteValues(cmd, "format", string(FormatTable), string(FormatJSON))
}

func (f *Format) String() string { return string(*f) }

// Type returns what the help calls a value.
func (f *Format) Type() string { return "table|json" }

// Set reads a value.
func (f *Format) Set(s string) error {
	if !slices.Contains([]Format{FormatTable, FormatJSON}, Format(s)) {
		return fmt.Errorf("want table or json")
	}
	*f = Format(s)
	return nil
}

// WriteJSON writes what is not a message of the protocol.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Size is a flag for a number of bytes, with the suffixes of the coreutils:
// K, M, G, T and KiB, ... are powers of 1024, kB, MB, ... of 1000.
type Size int64

// Type returns what the help calls a value.
func (n *Size) Type() string { return "SIZE" }

func (n *Size) String() string { return strconv.FormatInt(int64(*n), 10) }

// Set reads a value.
func (n *Size) Set(s string) error {
	v, err := config.Size(s)
	if err != nil {
		return err
	}
	*n = Size(v)
	return nil
}

// CompleteValues has the shell offer these values of a flag.
func CompleteValues(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// Texts returns the texts of values.
func Texts[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

// List names values in a row.
func List[T ~string](values []T) string { return strings.Join(Texts(values), ", ") }
