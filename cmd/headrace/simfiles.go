package main

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

// An outFile is a file for results, and who fills it.
type outFile struct {
	// flag names it in errors.
	flag, path string
	write      func(io.Writer) error
}

// check finds what would keep the file from being written, before hours have gone
// into what is to be in it. It changes nothing.
func (o outFile) check() error {
	info, err := os.Stat(o.path)
	switch {
	case o.path == "-":
		return cli.UsageErrorf("%s -: standard output has the tables; name a file", o.flag)
	case err == nil && info.IsDir():
		return cli.UsageErrorf("%s %s: it is a directory; name a file in it", o.flag, o.path)
	case err == nil && !info.Mode().IsRegular():
		return o.may(o.path, unix.W_OK)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", o.flag, err)
	}
	for dir := filepath.Dir(o.path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s %s: %s is not a directory", o.flag, o.path, dir)
		case err == nil:
			return o.may(dir, unix.W_OK|unix.X_OK)
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return fmt.Errorf("%s: %w", o.flag, err)
		}
	}
}

func (o outFile) may(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return fmt.Errorf("%s %s: cannot write to %s: %w", o.flag, o.path, path, err)
	}
	return nil
}

// writeFiles writes all of them or none: first beside the places where they go,
// then all into place. Directories are made. What is there and is not a file (a
// pipe, a terminal) is written to as it is. When ctx ends, so does the writing.
func writeFiles(ctx context.Context, files ...outFile) (err error) {
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
			return fmt.Errorf("%s %s: %w", o.flag, o.path, err)
		}
	}
	for i := range staged {
		if err := staged[i].place(); err != nil {
			return fmt.Errorf("%s %s: %w", files[i].flag, files[i].path, err)
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

func (o outFile) stage(ctx context.Context) (stagedFile, error) {
	path := o.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return stagedFile{}, err
		}
		return stagedFile{}, fill(ctx, f, o.write)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return stagedFile{}, err
	}
	f, err := createBeside(path)
	if err != nil {
		return stagedFile{}, err
	}
	return stagedFile{temp: f.Name(), path: path}, fill(ctx, f, o.write)
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
	b := bufio.NewWriterSize(untilDone{ctx, f}, 1<<16)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	return errors.Join(err, f.Close())
}

// untilDone is a writer that fails once its context has ended.
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

// nothingWritten returns err, or that the person has ended it.
func nothingWritten(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return cli.Exit(cli.ExitInterrupted, errors.New("interrupted: nothing was written"))
	}
	return err
}
