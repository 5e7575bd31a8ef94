package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/hdfs"
	"headrace/hdfs/pb"
)

// files asks the file system for its nodes, and has f read and write files by WebHDFS, at whichever answers.
func (a dfsVerbs) files(ctx context.Context, address string, f func(*hdfs.Client) error) error {
	return a.reach(ctx, address, func(c asker) error {
		var nodes pb.GetDatanodeReportResponseProto
		if err := c.Call(ctx, "getDatanodeReport", &pb.GetDatanodeReportRequestProto{Type: pb.DatanodeReportTypeProto_LIVE.Enum()}, &nodes); err != nil {
			return err
		}
		o := hdfs.Options{User: c.user}
		for _, n := range nodes.Di {
			if port := n.GetId().GetInfoPort(); port != 0 {
				o.NameNodes = append(o.NameNodes, "http://"+hostPort(n.GetId().GetIpAddr(), port))
			}
		}
		if len(o.NameNodes) == 0 {
			return fmt.Errorf("no node of %s serves WebHDFS, by which files are read and written: start one without --http-port 0", address)
		}
		client, err := hdfs.New(o)
		if err != nil {
			return err
		}
		return coded(f(client))
	})
}

// coded gives an error about what is not there its exit code.
func coded(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Exit(cli.ExitNotFound, err)
	}
	return err
}

func dfsCatVerb(a dfsVerbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "cat PATH...",
		Short: "Write what files have to standard output",
		Example: `  headrace dfs cat /logs/access.log | wc -l
  headrace dfs cat /out/part-00000 /out/part-00001 > all`,
		Args:              cli.Takes(1, -1, "a path"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.files(cmd.Context(), fs, func(c *hdfs.Client) error {
				for _, from := range args {
					if err := copyOf(cmd.Context(), c, fromRoot(from), a.out); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

func dfsGetVerb(a dfsVerbs) *cobra.Command {
	var fs string
	var force bool
	cmd := &cobra.Command{
		Use:   "get PATH [FILE]",
		Short: "Copy a file of the file system to this machine",
		Long: `Get copies a file of the file system to FILE, or into the directory FILE, or else
under its name to where you are. FILE appears when it is whole. One that is there
is left alone, unless you say --force.`,
		Example: `  headrace dfs get /logs/access.log
  headrace dfs get /logs/access.log /tmp --force`,
		Args: cli.Takes(1, 2, "a path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := fromRoot(args[0])
			to := append(args, ".")[1]
			if i, err := os.Stat(to); err == nil && i.IsDir() {
				to = filepath.Join(to, path.Base(from))
			}
			if _, err := os.Lstat(to); err == nil && !force {
				return fmt.Errorf("%s is there already: name another file, or say --force", to)
			}
			return a.files(cmd.Context(), fs, func(c *hdfs.Client) error { return get(cmd.Context(), c, from, to) })
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace a FILE that is there")
	return cmd
}

// get copies a file to a new one beside the place where it is to be, and moves it there.
func get(ctx context.Context, c *hdfs.Client, from, to string) (err error) {
	part, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(part.Name())
		}
	}()
	err = errors.Join(copyOf(ctx, c, from, part), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), to)
	}
	return err
}

func copyOf(ctx context.Context, c *hdfs.Client, from string, to io.Writer) error {
	i, err := c.Stat(ctx, from)
	if err != nil {
		return err
	}
	if i.Dir {
		return fmt.Errorf("%s is a directory: name the files in it", from)
	}
	r, err := c.Open(ctx, from)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(to, r)
	if err == nil && n < i.Size { // the connection may end as if it were the end of the file
		err = fmt.Errorf("%s has %d bytes, and %d of them came", from, i.Size, n)
	}
	return err
}

// copying is behind the name of a file that is not whole yet, as with hdfs dfs -put.
const copying = "._COPYING_"

func dfsPutVerb(a dfsVerbs) *cobra.Command {
	var fs string
	var force bool
	cmd := &cobra.Command{
		Use:   "put FILE|- PATH",
		Short: "Copy a file of this machine, or standard input, to the file system",
		Long: `Put copies FILE, or with - standard input, to PATH, or into the directory PATH. The
file appears there when it is whole, and is on the disks when put ends. One that is
there is left alone, unless you say --force.`,
		Example: `  headrace dfs put access.log /logs/
  zcat old.gz | headrace dfs put - /logs/old`,
		Args: cli.Takes(2, 2, "a file and a path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				if i, err := f.Stat(); err == nil && i.IsDir() {
					return fmt.Errorf("%s is a directory: name a file; hdfs dfs -put copies directories", args[0])
				}
				from = f
			}
			return a.files(cmd.Context(), fs, func(c *hdfs.Client) error { return put(cmd.Context(), c, from, args[0], args[1], force) })
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace a file that is there")
	return cmd
}

// put copies a file that has a name here.
func put(ctx context.Context, c *hdfs.Client, from io.Reader, name, to string, force bool) error {
	into := strings.HasSuffix(to, "/")
	to = fromRoot(to)
	i, err := c.Stat(ctx, to)
	switch {
	case err == nil && i.Dir && name == "-":
		return fmt.Errorf("%s is a directory: name the file that standard input is to become", to)
	case err == nil && i.Dir:
		to = path.Join(to, filepath.Base(name))
		i, err = c.Stat(ctx, to)
	case err != nil && into:
		return err
	}
	switch {
	case err == nil && i.Dir:
		return fmt.Errorf("%s is a directory", to)
	case err == nil && !force:
		return fmt.Errorf("%s is there already: name another path, or say --force", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	there := err == nil
	part := to + copying
	// What somebody has left there was never whole.
	if err = c.RemoveAll(ctx, part); err == nil {
		err = c.Create(ctx, part, 0o644, func(w io.Writer) error { _, err := io.Copy(w, from); return err })
	}
	if err == nil && there {
		err = c.RemoveAll(ctx, to)
	}
	if err == nil {
		err = c.Rename(ctx, part, to)
	}
	if err != nil {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterTime) // also after Ctrl-C
		defer cancel()
		err = errors.Join(err, c.RemoveAll(gone, part))
	}
	return err
}

// fromRoot is a path as the file system has it: there is no working directory.
func fromRoot(p string) string { return path.Join("/", p) }
