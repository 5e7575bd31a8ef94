package fileset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrNotRegular is a path that names a device, a pipe or a socket.
	ErrNotRegular = errors.New("it is no regular file")
	// ErrNoMatch is a pattern that matches nothing.
	ErrNoMatch = errors.New("no file matches it")
	// ErrRelative is a path that does not begin with a slash.
	ErrRelative = errors.New("it is relative; give an absolute path")
)

// Problem is a path that nothing, or not everything, was found below.
type Problem struct {
	Path string
	Err  error
}

func (p *Problem) Error() string { return p.Path + ": " + p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// File is a regular file as it was when it was found.
type File struct {
	Path string
	Info fs.FileInfo
}

// Visitor gets what Find finds. Each of its functions ends the search by an
// error, which Find returns.
type Visitor struct {
	File func(File) error
	// Problem is told what could not be looked at; the search goes on. Nil: the
	// first problem ends it.
	Problem func(*Problem) error
}

// Find finds the regular files that absolute paths mean, in the order of the
// paths. A path that exists is itself: a file, or a directory with all regular
// files below it, those of each directory sorted by name. Else it is a pattern
// of path.Match and means all that matches it, sorted. Symbolic links are
// followed where a path or a pattern names them, not below a directory. A file
// that several paths lead to by the same name is found once.
//
// Special files are a problem where they are named, and passed over below a
// directory. Files that vanish meanwhile are passed over. Find uses no other
// goroutine: what it looks at is looked at with the rights of this thread.
func Find(ctx context.Context, paths []string, v Visitor) error {
	f := finder{ctx: ctx, v: v}
	if len(paths) > 1 || slices.ContainsFunc(paths, IsPattern) {
		f.seen = map[string]bool{}
	}
	for _, p := range paths {
		if err := f.path(p); err != nil {
			return err
		}
	}
	return nil
}

type finder struct {
	ctx context.Context
	v   Visitor
	// seen are the files found so far; nil where none can be found twice.
	seen map[string]bool
}

func (f *finder) problem(path string, err error) error {
	p := &Problem{Path: path, Err: plain(err)}
	if f.v.Problem == nil {
		return p
	}
	return f.v.Problem(p)
}

// plain takes the path off an error that names it itself.
func plain(err error) error {
	var with *fs.PathError
	if errors.As(err, &with) {
		return with.Err
	}
	return err
}

func (f *finder) path(path string) error {
	if !filepath.IsAbs(path) {
		return f.problem(path, ErrRelative)
	}
	clean := filepath.Clean(path)
	info, err := os.Stat(clean)
	if errors.Is(err, fs.ErrNotExist) && IsPattern(path) {
		return f.pattern(path)
	}
	if err != nil {
		return f.problem(path, err)
	}
	return f.named(clean, info)
}

func (f *finder) pattern(pattern string) error {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return f.problem(pattern, fmt.Errorf("it is no pattern: %w", err))
	}
	if len(matches) == 0 {
		return f.problem(pattern, ErrNoMatch)
	}
	slices.Sort(matches)
	for _, path := range matches {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.named(path, info)
		} else {
			err = f.problem(path, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) named(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return f.below(path)
	case info.Mode().IsRegular():
		return f.file(path, info)
	}
	return f.problem(path, ErrNotRegular)
}

func (f *finder) file(path string, info fs.FileInfo) error {
	if f.seen != nil {
		if f.seen[path] {
			return nil
		}
		f.seen[path] = true
	}
	return f.v.File(File{Path: path, Info: info})
}

// below finds what is in a directory. An error of reading it does not hide what
// was read of it before.
func (f *finder) below(dir string) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	entries, readErr := os.ReadDir(dir)
	for i, e := range entries {
		if i%256 == 255 && f.ctx.Err() != nil {
			return f.ctx.Err()
		}
		if err := f.entry(filepath.Join(dir, e.Name()), e); err != nil {
			return err
		}
	}
	if readErr == nil || errors.Is(readErr, fs.ErrNotExist) {
		return nil
	}
	return f.problem(dir, readErr)
}

func (f *finder) entry(path string, e fs.DirEntry) error {
	if e.IsDir() {
		return f.below(path)
	}
	if !e.Type().IsRegular() {
		return nil
	}
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return f.problem(path, err)
	case !info.Mode().IsRegular(): // replaced since
		return nil
	}
	return f.file(path, info)
}

// IsPattern reports whether a path that does not exist is taken for a pattern.
func IsPattern(path string) bool { return strings.ContainsAny(path, `*?[\`) }

// Escape is the pattern that matches just s.
func Escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// Absolute is a path as Find wants it, seen from the directory dir: a pattern
// stays one, and what looks like one in dir does not become one.
func Absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	plain := filepath.Join(dir, path)
	if !IsPattern(path) {
		return plain
	}
	if _, err := os.Lstat(plain); err == nil {
		return plain
	}
	return filepath.Join(Escape(dir), path)
}
