package filesystem

import (
	"context"
	"crypto/rand"
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
func (a verbs) files(ctx context.Context, address string, f func(*hdfs.Client) error) error {
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

func catVerb(a verbs) *cobra.Command {
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
					if err := copyOf(cmd.Context(), c, fromRoot(from), a.Out); err != nil {
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

func getVerb(a verbs) *cobra.Command {
	var fs string
	var force bool
	cmd := &cobra.Command{
		Use:   "get PATH [FILE]",
		Short: "Copy a file of the file system to this machine, or all in a directory",
		Long: `Get copies a file of the file system to FILE, or into the directory FILE, or else
under its name to where you are. FILE appears when it is whole. One that is there
is left alone, unless you say --force. A directory is copied with all in it; with
--force also into one that is there.`,
		Example: `  headrace dfs get /logs/access.log
  headrace dfs get /logs/access.log /tmp --force
  headrace dfs get /logs/2026 .`,
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
			return a.files(cmd.Context(), fs, func(c *hdfs.Client) error {
				i, err := c.Stat(cmd.Context(), from)
				if err != nil {
					return err
				}
				return getAll(cmd.Context(), c, i, from, to)
			})
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace a FILE that is there")
	return cmd
}

// getAll copies a file, or a directory with all in it.
func getAll(ctx context.Context, c *hdfs.Client, i hdfs.FileInfo, from, to string) error {
	if !i.Dir {
		if there, err := os.Lstat(to); err == nil && there.IsDir() {
			return fmt.Errorf("%s is a directory, and %s is a file", to, from)
		}
		return get(ctx, c, from, to)
	}
	if err := os.Mkdir(to, 0o777); err != nil && !isDir(to) {
		return err
	}
	entries, err := c.ReadDir(ctx, from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !filepath.IsLocal(e.Name) || e.Name != filepath.Base(e.Name) {
			return fmt.Errorf("%s has an entry %q, which is no name of a file", from, e.Name)
		}
		if err := getAll(ctx, c, e, path.Join(from, e.Name), filepath.Join(to, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// isDir reports whether name is a directory, and no link to one.
func isDir(name string) bool {
	i, err := os.Lstat(name)
	return err == nil && i.IsDir()
}

// get copies a file to a new one beside the place where it is to be, and moves it there.
func get(ctx context.Context, c *hdfs.Client, from, to string) (err error) {
	// Others may read it as any new file, or as the one that it takes the place of.
	part, err := os.OpenFile(filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+"."+rand.Text()[:10]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(part.Name())
		}
	}()
	if old, there := os.Lstat(to); there == nil && old.Mode().IsRegular() {
		err = part.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = copyOf(ctx, c, from, part)
	}
	err = errors.Join(err, part.Close())
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
	r := c.Resume(ctx, from, i) // nodes end connections from which nothing is taken for minutes, as by less
	defer r.Close()
	_, err = io.Copy(to, r)
	return err
}

// copying is at the end of the name of a file that is not whole yet, as with hdfs dfs -put.
const copying = "._COPYING_"

func putVerb(a verbs) *cobra.Command {
	var fs string
	var force bool
	cmd := &cobra.Command{
		Use:   "put FILE|- PATH",
		Short: "Copy a file of this machine, a directory, or standard input to the file system",
		Long: `Put copies FILE, or with - standard input, to PATH, or into the directory PATH. The
file appears there when it is whole, and is on the disks when put ends. One that is
there is left alone, unless you say --force. A directory is copied with all in it;
with --force also into one that is there. A put that is killed leaves a file whose
name ends with ._COPYING_, which may be removed.`,
		Example: `  headrace dfs put access.log /logs/
  headrace dfs put logs /
  zcat old.gz | headrace dfs put - /logs/old`,
		Args: cli.Takes(2, 2, "a file and a path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "-" {
				if _, err := os.Stat(args[0]); err != nil {
					return err
				}
			}
			return a.files(cmd.Context(), fs, func(c *hdfs.Client) error {
				to, err := target(cmd.Context(), c, args[0], args[1])
				if err != nil {
					return err
				}
				if args[0] == "-" {
					return put(cmd.Context(), c, a.In, to, force)
				}
				return putAll(cmd.Context(), c, args[0], to, force)
			})
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace a file that is there")
	return cmd
}

// target returns the path that what has a name here is to have.
func target(ctx context.Context, c *hdfs.Client, name, to string) (string, error) {
	into := strings.HasSuffix(to, "/")
	to = fromRoot(to)
	i, err := c.Stat(ctx, to)
	switch {
	case err == nil && i.Dir && name == "-":
		return "", fmt.Errorf("%s is a directory: name the file that standard input is to become", to)
	case err == nil && i.Dir:
		name, err = filepath.Abs(name) // . and .. have names too
		return path.Join(to, filepath.Base(name)), err
	case err != nil && (into || !errors.Is(err, fs.ErrNotExist)):
		return "", err
	}
	return to, nil
}

// putAll copies a file, or a directory with all in it.
func putAll(ctx context.Context, c *hdfs.Client, from, to string, force bool) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.IsDir() {
		return errors.Join(err, put(ctx, c, f, to, force))
	}
	switch i, err := c.Stat(ctx, to); {
	case err == nil && (!i.Dir || !force):
		return fmt.Errorf("%s is there already: name another path, or, if it is a directory, say --force", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := c.MkdirAll(ctx, to, 0o755); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(from, e.Name())
		if !e.IsDir() && !e.Type().IsRegular() { // a link may lead round in a circle, and a pipe may never end
			return fmt.Errorf("%s is neither a file nor a directory; what was copied before it is there", name)
		}
		if err := putAll(ctx, c, name, path.Join(to, e.Name()), force); err != nil {
			return err
		}
	}
	return nil
}

// put copies what there is to read to a file.
func put(ctx context.Context, c *hdfs.Client, from io.Reader, to string, force bool) (err error) {
	i, err := c.Stat(ctx, to)
	switch {
	case err == nil && i.Dir:
		return fmt.Errorf("%s is a directory", to)
	case err == nil && !force:
		return fmt.Errorf("%s is there already: name another path, or say --force", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	part, size, move := to+"."+rand.Text()[:10]+copying, int64(0), c.Rename // somebody else may put a file there, too
	if force {
		move = c.Replace
	}
	err = c.Create(ctx, part, 0o644, func(w io.Writer) (err error) { size, err = io.Copy(w, from); return err })
	whole := err == nil
	if whole {
		err = move(ctx, part, to)
	}
	if err == nil {
		return nil
	}
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.AnswerTime) // also after Ctrl-C
	defer cancel()
	if whole && moved(gone, c, part, to, size) {
		return nil
	}
	return errors.Join(err, c.RemoveAll(gone, part))
}

// moved reports whether a file is where it was to be moved to. The answer that said so may have got lost.
func moved(ctx context.Context, c *hdfs.Client, part, to string, size int64) bool {
	_, gone := c.Stat(ctx, part)
	i, err := c.Stat(ctx, to)
	return errors.Is(gone, fs.ErrNotExist) && err == nil && !i.Dir && i.Size == size
}

// fromRoot is a path as the file system has it: there is no working directory.
func fromRoot(p string) string { return path.Join("/", p) }
