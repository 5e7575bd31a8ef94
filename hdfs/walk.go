package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

var (
	// ErrNoMatch is a pattern that matches nothing.
	ErrNoMatch   = errors.New("no file matches it")
	errManyNames = fmt.Errorf("too many files are named one by one, more than %d; name their directories", maxNamed)
)

// maxNamed bounds what is remembered of a search.
const maxNamed = 1 << 20

// Problem is a path that nothing, or not everything, was found below.
type Problem struct {
	Path string
	Err  error
}

func (p *Problem) Error() string { return p.Path + ": " + p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// Visitor gets what Find finds. Each of its functions ends the search by an error, which
// Find returns.
type Visitor struct {
	// File is told a file's path and what it is; FileInfo.Name may be empty.
	File func(path string, f FileInfo) error
	// Problem is told what could not be looked at; the search goes on. Nil: the first
	// problem ends it.
	Problem func(*Problem) error
}

// Find finds the files that absolute paths and patterns mean, in the order of the paths,
// as the input formats of MapReduce do it: a directory means all files below it, those of
// each directory sorted by name; what begins with _ or . is hidden, below a directory and
// among what a pattern matches, and found only where a path names it. A path with one of
// * ? [ { \ is a pattern of Hadoop's, also if there is a file of that name; one that
// stands for very many, or takes very long to compare with names, is a problem. A
// file that several paths lead to is found once.
//
// What vanishes meanwhile is passed over. A directory that the user may not read is a
// problem, where a pattern would have to list it too. The end of ctx ends the search. It
// asks one question at a time and remembers, but for the paths and what their patterns
// match, one answer for each directory on the way down.
func (c *Client) Find(ctx context.Context, paths []string, v Visitor) error {
	f := finder{ctx: ctx, c: c, v: v, named: map[string]bool{}}
	for _, p := range paths {
		if err := f.path(p); err != nil {
			return err
		}
	}
	return nil
}

type finder struct {
	ctx context.Context
	c   *Client
	v   Visitor
	// named are the paths and matches so far.
	named map[string]bool
}

// problem reports an error, unless that is the end of the search.
func (f *finder) problem(path string, err error) error {
	if f.ctx.Err() != nil {
		return f.ctx.Err()
	}
	p := &Problem{Path: path, Err: err}
	if f.v.Problem == nil {
		return p
	}
	return f.v.Problem(p)
}

func (f *finder) path(p string) error {
	if len(p) > MaxPath {
		return f.problem(fmt.Sprintf("%.40q...", p), errLong)
	}
	if !path.IsAbs(p) {
		return f.problem(p, errPath)
	}
	if !IsPattern(p) {
		p = path.Clean(p)
		info, err := f.c.Stat(f.ctx, p)
		if err != nil {
			return f.problem(p, err)
		}
		return f.root(p, info)
	}
	patterns, err := expand(p)
	any := false
	for _, pattern := range patterns {
		var one bool
		if one, err = f.pattern(pattern, pattern == p); err != nil {
			break
		}
		any = any || one
	}
	switch {
	case errors.Is(err, errPattern):
		return f.problem(p, err)
	case err == nil && !any:
		return f.problem(p, ErrNoMatch)
	}
	return err
}

// pattern finds what matches a pattern without slashes in braces, and reports whether
// anything does. named: a path named it, and no braces.
func (f *finder) pattern(pattern string, named bool) (any bool, err error) {
	var parts []glob
	for name := range strings.SplitSeq(path.Clean(pattern), "/") {
		if name == "" {
			continue
		}
		g, err := newGlob(name)
		if err != nil {
			return false, err
		}
		parts = append(parts, g)
	}
	return f.match("/", parts, named)
}

// match finds what matches patterns of names below a directory: the root, or one that
// has matched. named: until now it is named, and so may be hidden.
func (f *finder) match(dir string, parts []glob, named bool) (any bool, err error) {
	at := dir
	for len(parts) > 0 && parts[0].names == nil {
		at, parts = path.Join(at, parts[0].literal), parts[1:]
	}
	if len(parts) == 0 {
		info, err := f.c.Stat(f.ctx, at)
		switch {
		case errors.Is(err, fs.ErrNotExist), !named && hidden(path.Base(at)):
			return false, nil
		case err != nil:
			return true, f.problem(at, err)
		}
		return true, f.root(at, info)
	}
	for info, err := range f.c.Entries(f.ctx, at) {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return any, nil
			}
			return true, f.problem(at, err)
		}
		if is, err := parts[0].names.have(info.Name); err != nil || f.ctx.Err() != nil {
			return true, cmp.Or(f.ctx.Err(), err)
		} else if !is {
			continue
		}
		one, sub := false, path.Join(at, info.Name)
		switch {
		case len(parts) > 1 && info.Dir:
			one, err = f.match(sub, parts[1:], false)
		case len(parts) == 1 && !hidden(info.Name):
			one, err = true, f.root(sub, info)
		}
		if any = any || one; err != nil {
			return any, err
		}
	}
	return any, nil
}

// root finds what is meant by a path that was named or matched.
func (f *finder) root(at string, info FileInfo) error {
	for p := at; ; p = path.Dir(p) {
		if f.named[p] && (p == at || !hiddenBelow(p, at)) {
			return nil
		}
		if p == "/" {
			break
		}
	}
	if len(f.named) == maxNamed {
		return f.problem(at, errManyNames)
	}
	f.named[at] = true
	if info.Dir {
		return f.below(at)
	}
	return f.v.File(at, info)
}

// below finds what is in a directory.
func (f *finder) below(dir string) error {
	for info, err := range f.c.Entries(f.ctx, dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return f.problem(dir, err)
		}
		at := path.Join(dir, info.Name)
		if hidden(info.Name) || f.named[at] {
			continue
		}
		if info.Dir {
			err = f.below(at)
		} else {
			err = f.v.File(at, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hidden reports whether input formats pass over a name.
func hidden(name string) bool { return strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") }

// hiddenBelow reports whether a path below dir was passed over when dir was looked at.
func hiddenBelow(dir, at string) bool {
	for ; at != dir; at = path.Dir(at) {
		if hidden(path.Base(at)) {
			return true
		}
	}
	return false
}
