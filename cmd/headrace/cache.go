package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headrace/report"
	"headrace/wire"
)

func cacheVerb(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cache PATH...",
		Short: "Tell which files are in memory, and who keeps them there",
		Long: `Cache tells for each file its size, how much of it is in memory, how much of that
is kept there by headrace warm and by whom, and at the end the sums. A PATH is a
file, a directory with all files below it, or a pattern. It reads nothing into
memory by itself.

It works without a daemon too, but then does not know what is kept. With --format
json each file is an object on a line.`,
		Example: `  headrace cache data/
  headrace cache --format json data/ | jq -r 'select(.resident == "0") | .path'`,
		Args: takes(1, -1, "the path of a file or directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := absolutePaths(args)
			if err != nil {
				return err
			}
			return a.cache(cmd.Context(), paths)
		},
	}
}

func (a *app) cache(ctx context.Context, paths []string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	r := &cacheReport{app: a, out: bufio.NewWriterSize(a.out, 64<<10)}
	if err := d.cache(ctx, paths, r); err != nil {
		r.out.Flush()
		return err
	}
	return r.end()
}

func (d *daemon) cache(ctx context.Context, paths []string, r *cacheReport) error {
	stream, err := d.data.Cache(ctx, &wire.CacheRequest{Paths: paths})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := r.chunk(stream.Msg()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return stream.Err()
}

// cacheReport shows files as they come; there may be very many.
type cacheReport struct {
	app *app
	out *bufio.Writer
	// keepsUnknown: nobody can tell what is kept.
	keepsUnknown bool

	files, size, resident, pinned int64
	problems                      int64
}

const cacheLine = "%9s  %9s  %7s  %9s  %s\n"

func (r *cacheReport) chunk(c *wire.CacheChunk) error {
	if c.ResidencyWhy != "" && c.Residency == "none" {
		r.app.say("nothing is known about what is in memory: %s", c.ResidencyWhy)
	}
	for _, p := range c.Problems {
		r.problems++
		r.app.say("%s: %s", p.Path, p.Reason)
	}
	for _, f := range c.Files {
		if err := r.file(f); err != nil {
			return err
		}
	}
	return r.out.Flush()
}

func (r *cacheReport) file(f *wire.CacheFile) error {
	first := r.files == 0
	r.files++
	r.size += f.Size
	r.resident += f.Resident
	r.pinned += f.Pinned
	if r.app.format == formatJSON {
		return writeMessageLine(r.out, f)
	}
	if first {
		if _, err := fmt.Fprintf(r.out, cacheLine, "size", "in memory", "", "kept", "file"); err != nil {
			return err
		}
	}
	name := oneLine(f.Path)
	if len(f.PinnedBy) > 0 {
		name += "  (" + oneLine(strings.Join(f.PinnedBy, ", ")) + ")"
	}
	return r.line(f.Size, f.Resident, f.Pinned, name)
}

func (r *cacheReport) line(size, resident, pinned int64, name string) error {
	kept := report.Bytes(pinned)
	if r.keepsUnknown {
		kept = "?"
	}
	share := ""
	if size > 0 {
		share = report.Percent(float64(resident) / float64(size))
	}
	_, err := fmt.Fprintf(r.out, cacheLine, report.Bytes(size), report.Bytes(resident), share, kept, name)
	return err
}

// end writes the sums, and says by its error that there were problems.
func (r *cacheReport) end() error {
	if r.files > 0 && r.app.format != formatJSON {
		if err := r.line(r.size, r.resident, r.pinned, "all "+files(r.files)); err != nil {
			return err
		}
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	if r.problems > 0 {
		return &exitError{code: exitFailure}
	}
	return nil
}
