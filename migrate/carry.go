package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/engine/yarn"
)

// maxCarried bounds the number of files of a task.
const maxCarried = 200_000

// Wanted is a file that a task needs at the same path.
type Wanted struct {
	Path string // absolute
	// Tree: with all that is below it, if it is a directory.
	Tree bool
}

// Carried is the files that go along with a checkpoint.
type Carried struct {
	// Outside are the wanted files that are below none of the roots. They must be on
	// the other machine already; see Fingerprint.AddFiles.
	Outside []string

	files []File // in the order in which they can be made
	roots []Root
}

// Carry decides which of the wanted files are carried: those below the roots, with
// the directories between, and what symbolic links among them lead to. What links
// in a tree lead to in a NodeManager's cache, the other one has too, somewhere in its
// own; so it is left out unless something in it is wanted at its path. What a link leads to and
// the root's owner cannot look at is left out too: there it leads to nothing as well. Sockets in
// trees are left out; other files that cannot be copied are an error (ErrUncarried).
// Names of one file (hard links) become files of their own. The task must not run.
func Carry(ctx context.Context, wanted []Wanted, roots []Root) (*Carried, error) {
	if err := checkRoots(roots); err != nil {
		return nil, err
	}
	c := &carrier{ctx: ctx, Carried: &Carried{roots: roots}, wanted: wanted, seen: make(map[string]bool), outside: make(map[string]bool)}
	for _, w := range wanted {
		if err := c.add(w, nil); err != nil {
			return nil, fmt.Errorf("files that go along: %w", err)
		}
	}
	slices.Sort(c.Outside)
	return c.Carried, nil
}

type carrier struct {
	*Carried
	ctx           context.Context
	wanted        []Wanted
	seen, outside map[string]bool
}

// add adds a file, and what is needed to reach it. A file that is wanted only as
// a link leads to it may be missing: link is the root in which that is, else nil.
func (c *carrier) add(w Wanted, link *Root) error {
	if !filepath.IsAbs(w.Path) {
		return fmt.Errorf("%q is not an absolute path", w.Path)
	}
	p := filepath.Clean(w.Path)
	root, rel, ok := rootOf(c.roots, p)
	if !ok {
		if !c.isRoot(p) && !c.outside[p] && (link == nil || link.sees(p)) {
			c.outside[p] = true
			c.Outside = append(c.Outside, p)
		}
		return nil
	}
	parts := strings.Split(rel, "/")
	for i := range parts {
		last := i == len(parts)-1
		err := c.one(root, strings.Join(parts[:i+1], "/"), last && w.Tree)
		if errors.Is(err, os.ErrNotExist) && link != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *carrier) isRoot(p string) bool {
	return slices.ContainsFunc(c.roots, func(r Root) bool { return r.Path == p })
}

// one adds a single file below a root, and what it leads to.
func (c *carrier) one(root Root, rel string, tree bool) error {
	f, err := inspect(root, rel)
	if err != nil {
		return err
	}
	key := f.Path
	if tree {
		key += "/"
	}
	if c.seen[key] {
		return nil
	}
	c.seen[key] = true
	if !c.seen[f.Path] || !tree {
		c.seen[f.Path] = true
		c.files = append(c.files, f)
	}
	if len(c.files) > maxCarried {
		return fmt.Errorf("%w: more than %d files", ErrUncarried, maxCarried)
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	switch {
	case f.Type == Symlink:
		target := f.Link
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(f.Path), target)
		}
		if yarn.Localized(target) && c.leftOut(f.Path, filepath.Clean(target)) {
			return nil
		}
		return c.add(Wanted{target, true}, &root)
	case f.Type == Directory && tree:
		return c.below(root, rel)
	}
	return nil
}

// leftOut reports whether a link is in a wanted tree, and nothing is wanted at the
// path that it leads to, or below.
func (c *carrier) leftOut(link, target string) bool {
	inTree := false
	for _, w := range c.wanted {
		if strings.HasPrefix(w.Path+"/", target+"/") {
			return false
		}
		inTree = inTree || w.Tree && strings.HasPrefix(link, w.Path+"/")
	}
	return inTree
}

// below adds what is in a directory.
func (c *carrier) below(root Root, rel string) error {
	names, err := root.names(rel)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := c.one(root, filepath.Join(rel, name), true)
		if err != nil && !errors.Is(err, errSocket) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

var errSocket = fmt.Errorf("%w: a socket", ErrUncarried)

// inspect describes a file without following a link.
func inspect(root Root, rel string) (File, error) {
	f := File{In: InPlace, Path: filepath.Join(root.Path, rel)}
	err := root.as(func() error {
		d, name, err := root.dir(rel)
		if err != nil {
			return err
		}
		defer d.Close()
		var st unix.Stat_t
		if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "stat", Path: f.Path, Err: err}
		}
		f.Mode, f.MTime = st.Mode&0o7777, st.Mtim.Nano()
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			f.Type, f.Size = Regular, st.Size
		case unix.S_IFDIR:
			f.Type = Directory
		case unix.S_IFIFO:
			f.Type = FIFO
		case unix.S_IFLNK:
			f.Type, f.Mode = Symlink, 0
			f.Link, err = readlinkat(d, name)
		case unix.S_IFSOCK:
			return fmt.Errorf("%s: %w", f.Path, errSocket)
		default:
			return fmt.Errorf("%s: a device: %w", f.Path, ErrUncarried)
		}
		return err
	})
	if err == nil {
		if err = f.check(); err != nil {
			err = fmt.Errorf("%w: %w", ErrUncarried, err)
		}
	}
	return f, err
}

func readlinkat(d *os.File, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(int(d.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// each calls do with every file, as it is now; regular ones are open.
func (c *Carried) each(do func(File, *os.File) error) error {
	for _, f := range c.files {
		if err := c.open(f, do); err != nil {
			return err
		}
	}
	return nil
}

func (c *Carried) open(f File, do func(File, *os.File) error) error {
	if f.Type != Regular {
		return do(f, nil)
	}
	root, rel, _ := rootOf(c.roots, f.Path)
	var file *os.File
	err := root.as(func() (err error) {
		file, err = root.at(rel, unix.O_RDONLY)
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file any more", f.Path)
	}
	f.Size, f.Mode, f.MTime = st.Size, st.Mode&0o7777, st.Mtim.Nano()
	return do(f, file)
}
