package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/doctor"
	"headrace/fileset"
	"headrace/pagecache"
	"headrace/report"
	"headrace/wire"
)

func cacheVerb(a fileVerbs) *cobra.Command {
	return &cobra.Command{
		Use:   "cache PATH...",
		Short: "Tell which files are in memory, and who keeps them there",
		Long: `Cache tells for each file its size, how much of it is in memory, how much of that
is kept there by headrace warm and by whom, and at the end the sums; and first, which
disks do not answer. A PATH is a file, a directory with all files below it, or a
pattern. It reads nothing into memory by itself.

It works without a daemon too, but then does not know what is kept. With --format
json each file is an object on a line.

On a node of a cluster a PATH may be hdfs://CLUSTER/PATH; then it tells what of each
file is in memory on which nodes, and what of it is kept there for whom.`,
		Example: `  headrace cache data/
  headrace cache --format json data/ | jq -r 'select(.resident == 0) | .path'`,
		Args: cli.Takes(1, -1, "the path of a file or directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if is, err := inCluster(args); err != nil {
				return err
			} else if is {
				return a.cacheInputs(cmd.Context(), args)
			}
			paths, err := absolutePaths(args)
			if err != nil {
				return err
			}
			return a.cache(cmd.Context(), paths)
		},
	}
}

func (a fileVerbs) cache(ctx context.Context, paths []string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	r := &cacheReport{app: a.app, out: bufio.NewWriterSize(a.Out, 64<<10)}
	err = d.cache(ctx, paths, r)
	if without := (*wire.NoDaemonError)(nil); errors.As(err, &without) && r.files == 0 {
		a.Say("no daemon at %s: what it keeps in memory is not known", without.Socket)
		r.keepsUnknown = true
		err = localCache(ctx, paths, r)
	}
	if err != nil {
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
	var still stillness
	for stream.Receive() {
		if err := still.during(func() error { return r.chunk(stream.Msg()) }); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = stream.Err()
	if err != nil && severed(err) {
		err = cmp.Or(still.brokeOff(time.Now()), err)
	}
	return err
}

// localCache asks the kernel without a daemon, with the rights of this process.
func localCache(ctx context.Context, paths []string, r *cacheReport) error {
	pc, err := pagecache.New(pagecache.Config{Method: pagecache.Cachestat})
	if err != nil {
		return err
	}
	defer pc.Close()
	return fileset.Find(ctx, paths, fileset.Visitor{
		File: func(found fileset.File) error {
			f, err := fileset.Open(found.Path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it has vanished
			}
			if err != nil {
				return r.problem(err)
			}
			defer f.Close()
			size := found.Size
			resident, err := pc.Resident(f, pagecache.Range{Len: size})
			switch {
			case errors.Is(err, fs.ErrPermission):
				resident = -1
			case err != nil:
				return r.problem(err)
			}
			return r.file(&wire.CacheFile{Path: strings.ToValidUTF8(found.Path, "\uFFFD"), Size: size, Resident: resident})
		},
		Problem: func(p *fileset.Problem) error { return r.problem(p) },
	})
}

// problem says what is wrong with a file and goes on.
func (r *cacheReport) problem(err error) error {
	r.problems++
	r.app.Say("%v", err)
	return nil
}

// cacheReport shows files as they come; there may be very many.
type cacheReport struct {
	app *app
	out *bufio.Writer
	// keepsUnknown: nobody can tell what is kept.
	keepsUnknown bool

	files, size, resident, pinned int64
	problems, untold              int64
}

const cacheLine = "%9s  %9s  %7s  %9s  %s\n"

func (r *cacheReport) chunk(c *wire.CacheChunk) error {
	if c.ResidencyWhy != "" && c.Residency == "none" {
		r.app.Say("nothing is known about what is in memory: %s", c.ResidencyWhy)
	}
	for _, h := range c.Hangs {
		r.app.Say("%s", doctor.Hang(h, time.Now()))
	}
	for _, p := range c.Problems {
		r.problems++
		r.app.Say("%s: %s", p.Path, p.Reason)
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
	r.size = fileset.AddSizes(r.size, f.Size)
	r.resident += max(f.Resident, 0)
	r.pinned += f.Pinned
	if f.Resident < 0 {
		r.untold++
	}
	if r.app.Format == cli.FormatJSON {
		return jsonout.WriteLine(r.out, f)
	}
	if first {
		if _, err := fmt.Fprintf(r.out, cacheLine, "size", "in memory", "", "kept", "file"); err != nil {
			return err
		}
	}
	name := cli.OneLine(f.Path)
	if len(f.PinnedBy) > 0 {
		name += "  (" + cli.OneLine(strings.Join(f.PinnedBy, ", ")) + ")"
	}
	return r.line(f.Size, f.Resident, f.Pinned, name)
}

func (r *cacheReport) line(size, resident, pinned int64, name string) error {
	kept := report.Bytes(pinned)
	if r.keepsUnknown {
		kept = "?"
	}
	in, share := report.Bytes(resident), ""
	switch {
	case resident < 0:
		in = "?"
	case size > 0:
		share = report.Percent(float64(resident) / float64(size))
	}
	_, err := fmt.Fprintf(r.out, cacheLine, report.Bytes(size), in, share, kept, name)
	return err
}

// end writes the sums, and says by its error that there were problems.
func (r *cacheReport) end() error {
	if r.files > 0 && r.app.Format != cli.FormatJSON {
		resident := r.resident
		if r.untold > 0 {
			resident = -1
		}
		if err := r.line(r.size, resident, r.pinned, "all "+files(r.files)); err != nil {
			return err
		}
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	if r.files == 0 && r.problems == 0 {
		r.app.Say("there are no files in it")
	}
	if r.untold > 0 {
		r.app.Say("%s: the kernel tells what is in memory only to the owner, to those who may write the file, and to root", files(r.untold))
	}
	if r.problems > 0 {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}
