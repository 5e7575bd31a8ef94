package outfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/cli"
)

// An File is a file for results, and who fills it.
type File struct {
	// flag names it in errors.
	Flag, Path string
	Write      func(io.Writer) error
}

// Check finds what would keep the file from being written, before hours have gone
// into what is to be in it. It changes nothing.
func (o File) Check() error {
	info, err := os.Stat(o.Path)
	switch {
	case o.Path == "-":
		return cli.UsageErrorf("%s -: standard output has the tables; name a file", o.Flag)
	case err == nil && info.IsDir():
		return cli.UsageErrorf("%s %s: it is a directory; name a file in it", o.Flag, o.Path)
	case err == nil && !info.Mode().IsRegular():
		return o.may(o.Path, unix.W_OK)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", o.Flag, err)
	}
	for dir := filepath.Dir(o.Path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s %s: %s is not a directory", o.Flag, o.Path, dir)
		case err == nil:
			return o.may(dir, unix.W_OK|unix.X_OK)
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return fmt.Errorf("%s: %w", o.Flag, err)
		}
	}
}

func (o File) may(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return fmt.Errorf("%s %s: cannot write to %s: %w", o.Flag, o.Path, path, err)
	}
	return nil
}

// Write writes all of them or none: first beside the places where they go,
// then all into place. Directories are made. What is there and is not a file (a
// pipe, a terminal) is written to as it is. When ctx ends, so does the writing.
func Write(ctx context.Context, files ...File) (err error) {
	var staged []stagedFile
	defer func() {
		for _, s := range staged {
			s.drop()
		}
	}()
	for _, o := range files {
		s, err := o.stage(ctx)
		staged = append(staged, s)
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.Flag, o.Path, err)
		}
	}
	for i := range staged {
		if err := staged[i].place(); err != nil {
			return fmt.Errorf("%s %s: %w", files[i].Flag, files[i].Path, err)
		}
	}
	return nil
}

// A stagedFile is written and waits to be put into its place. An empty temp: there
// is nothing left to do.
type stagedFile struct{ temp, path string }

func (s *stagedFile) place() error {
	if s.temp == "" {
		return nil
	}
	if err := os.Rename(s.temp, s.path); err != nil {
		return err
	}
	s.temp = ""
	return nil
}

func (s *stagedFile) drop() {
	if s.temp != "" {
		os.Remove(s.temp)
	}
}

func (o File) stage(ctx context.Context) (stagedFile, error) {
	path := o.Path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return stagedFile{}, err
		}
		return stagedFile{}, fill(ctx, f, o.Write)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return stagedFile{}, err
	}
	f, err := createBeside(path)
	if err != nil {
		return stagedFile{}, err
	}
	return stagedFile{temp: f.Name(), path: path}, fill(ctx, f, o.Write)
}

// createBeside makes a new hidden file in the directory of path, with the rights
// that any new file has (os.CreateTemp leaves only its owner any).
func createBeside(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	for i := 0; ; i++ {
		temp := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.part", name, os.Getpid(), i))
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || i == 100 {
			return f, err
		}
	}
}

// fill writes a file and closes it.
func fill(ctx context.Context, f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(UntilDone(ctx, f), 1<<16)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	return errors.Join(err, f.Close())
}

// UntilDone returns a writer that fails once ctx has ended.
func UntilDone(ctx context.Context, w io.Writer) io.Writer { return untilDone{ctx, w} }

type untilDone struct {
	ctx context.Context
	io.Writer
}

func (w untilDone) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// NothingWritten returns err, or that the person has ended it.
func NothingWritten(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return cli.Exit(cli.ExitInterrupted, errors.New("interrupted: nothing was written"))
	}
	return err
}
