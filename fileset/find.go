package fileset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
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

// File is a regular file as it was when it was found; Size is in bytes.
type File struct {
	Path string
	Size int64
}

// Visitor gets what Find finds. Each of its functions ends the search by an
// error, which Find returns.
type Visitor struct {
	File func(File) error
	// Problem is told what could not be looked at; the search goes on. Nil: the
	// first problem ends it.
	Problem func(*Problem) error
	// Remember, if not nil, is asked before the search keeps so many bytes more, and told by a number below 0 when it
	// has let go of some. All of them are let go of when Find returns.
	Remember func(bytes int64) error
}

// Find finds the regular files that absolute paths mean, in the order of the
// paths. A path that exists is itself: a file, or a directory with all regular
// files below it, those of each directory sorted by name. Else it is a pattern
// of path.Match and means all that matches it, those of each directory sorted.
// Symbolic links are followed where a path or a pattern names them, not below a
// directory. A file that several paths lead to by the same name is found once.
//
// Special files and those of the kernel's own file systems are a problem where
// they are named, and passed over below a directory. Files that vanish meanwhile
// are passed over. A directory that cannot be read, or not to its end, is a problem, also where a pattern only leads
// through it. Find uses no other goroutine: what it looks at is looked at
// with the rights of this thread, and no magic link of /proc is followed, by which
// that would be more than a user's (linux.Lookup).
//
// The end of ctx ends the search also while nothing is found. It holds no open files. It remembers that a path was
// named, or matched a pattern, of up to a million of which it goes no further, and the names in the
// directories that it is in: Remember bounds that.
func Find(ctx context.Context, paths []string, v Visitor) error {
	f := finder{ctx: ctx, v: v}
	if len(paths) > 1 {
		f.named = map[xxh3.Uint128]struct{}{}
		defer func() { f.remember(-namedCost * int64(len(f.named))) }()
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
	// named are hashes of the paths and matches so far, which may be long; nil where none can be met twice.
	named map[xxh3.Uint128]struct{}
}

// maxNamed is how many paths and matches a search goes through that has several paths. A variable for tests.
var maxNamed = 1 << 20

const (
	// namedCost is what one of them takes to remember, nameCost a name in a directory beside its own bytes.
	namedCost = 64
	nameCost  = 48
	// somePiece is how many names of a directory are read at a time.
	somePiece = 1024
)

// remember claims what is kept, or gives it back.
func (f *finder) remember(bytes int64) error {
	if f.v.Remember == nil || bytes == 0 {
		return nil
	}
	return f.v.Remember(bytes)
}

// isNamed reports whether a path was named, or has matched.
func (f *finder) isNamed(path string) bool {
	if f.named == nil {
		return false
	}
	_, is := f.named[xxh3.HashString128(path)]
	return is
}

// each calls do with the names in a directory, sorted, as far as they can be read, and returns why not all can
// be. err ends the search.
func (f *finder) each(dir string, do func(name string) error) (unread, err error) {
	d, err := linux.OpenDirFor(dir)
	if err != nil {
		return err, nil
	}
	var list []string
	var bytes int64
	defer func() { f.remember(-bytes) }()
	for unread == nil && err == nil {
		var some []string
		some, unread = d.Readdirnames(somePiece)
		var n int64
		for _, name := range some {
			n += int64(len(name)) + nameCost
		}
		if err = f.ctx.Err(); err == nil {
			err = f.remember(n)
		}
		if err == nil {
			bytes += n
			list = append(list, some...)
		}
	}
	d.Close()
	if err != nil {
		return nil, err
	}
	if unread == io.EOF {
		unread = nil
	}
	slices.Sort(list)
	for i, name := range list {
		if i%256 == 255 {
			err = f.ctx.Err()
		}
		if err == nil {
			err = do(name)
		}
		if err != nil {
			return nil, err
		}
	}
	return plain(unread), nil
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
	st, err := look(clean, 0)
	if errors.Is(err, fs.ErrNotExist) && isPattern(path) {
		return f.pattern(path)
	}
	if err != nil {
		return f.problem(path, err)
	}
	return f.root(clean, st)
}

func (f *finder) pattern(pattern string) error {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return f.problem(pattern, fmt.Errorf("it is no pattern: %w", err))
	}
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(pattern), "/"), "/")
	any, err := f.match("/", parts)
	if err == nil && !any {
		err = f.problem(pattern, ErrNoMatch)
	}
	return err
}

// match finds what matches the parts of a pattern below a directory, and reports
// whether anything does, or may: a directory that cannot be read is a problem, for what matches in it would be missing
// without a word. What is no directory, and the kernel's own, have no matches.
func (f *finder) match(path string, parts []string) (any bool, err error) {
	if err := f.ctx.Err(); err != nil {
		return false, err
	}
	if len(parts) == 0 {
		st, err := look(path, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			return false, nil
		case err != nil:
			return true, f.problem(path, err)
		}
		return true, f.root(path, st)
	}
	if !isPattern(parts[0]) {
		return f.match(filepath.Join(path, parts[0]), parts[1:])
	}
	unread, err := f.each(path, func(name string) error {
		if fits, _ := filepath.Match(parts[0], name); !fits {
			return nil
		}
		one, err := f.match(filepath.Join(path, name), parts[1:])
		any = any || one
		return err
	})
	switch {
	case err != nil:
		return any, err
	case unread == nil, errors.Is(unread, fs.ErrNotExist), errors.Is(unread, unix.ENOTDIR), errors.Is(unread, linux.ErrKernelFile):
		return any, f.ctx.Err()
	}
	return true, f.problem(path, unread)
}

// root finds what is meant by a path that was named or matched.
func (f *finder) root(path string, st unix.Stat_t) error {
	if f.named != nil {
		for p := path; ; p = filepath.Dir(p) {
			if f.isNamed(p) {
				return nil
			}
			if p == "/" {
				break
			}
		}
		if len(f.named) >= maxNamed {
			return &Problem{Path: path, Err: errManyNames}
		}
		if err := f.remember(namedCost); err != nil {
			return err
		}
		f.named[xxh3.HashString128(path)] = struct{}{}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return f.below(path)
	case unix.S_IFREG:
		return f.v.File(File{Path: path, Size: st.Size})
	}
	return f.problem(path, ErrNotRegular)
}

var errManyNames = errors.New("too many files are named one by one, or match a pattern; name their directories")

// below finds what is in a directory. An error of reading it does not hide what
// was read of it before.
func (f *finder) below(dir string) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	unread, err := f.each(dir, func(name string) error { return f.entry(filepath.Join(dir, name)) })
	if err != nil || unread == nil || errors.Is(unread, fs.ErrNotExist) {
		return err
	}
	return f.problem(dir, unread)
}

func (f *finder) entry(path string) error {
	if f.isNamed(path) {
		return nil
	}
	st, err := look(path, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, linux.ErrKernelFile):
		return nil
	case err != nil:
		return f.problem(path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return f.below(path)
	case unix.S_IFREG:
		return f.v.File(File{Path: path, Size: st.Size})
	}
	return nil
}

// Base returns a path at or below which is all that Find finds by an absolute one, by its name: the path itself, or the directory that a pattern
// begins in.
func Base(path string) string {
	path = filepath.Clean(path)
	if at := strings.IndexAny(path, patternChars); at >= 0 {
		return filepath.Dir(path[:at+1])
	}
	return path
}

// patternChars are in patterns, and may be in names.
const patternChars = `*?[\`

// isPattern reports whether a path that does not exist is taken for a pattern.
func isPattern(path string) bool { return strings.ContainsAny(path, patternChars) }

// escape returns the pattern that matches just s.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// Absolute returns a path as Find wants it, seen from the directory dir: a pattern
// stays one, and what looks like one in dir does not become one.
func Absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	plain := filepath.Join(dir, path)
	if !isPattern(path) {
		return plain
	}
	if _, err := os.Lstat(plain); err == nil {
		return plain
	}
	return filepath.Join(escape(dir), path)
}
