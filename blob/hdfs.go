package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"headrace/hdfs"
)

// hdfsPlace is a directory in HDFS.
type hdfsPlace struct {
	c   *hdfs.Client
	dir string
}

// HDFS returns the place in a directory of HDFS, which is made with mode 0700 if it does
// not exist. It refuses one that others own or may look into.
func HDFS(ctx context.Context, c *hdfs.Client, dir string) (Place, error) {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
		return nil, fmt.Errorf("blobs in HDFS: %q is not the absolute path of a directory", dir)
	}
	h := &hdfsPlace{c, dir}
	if err := h.Mkdir(ctx, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", h, err)
	}
	st, err := c.Stat(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h, err)
	}
	own, err := h.owner(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be written: %w", h, err)
	case st.Owner != own:
		return nil, fmt.Errorf("%s belongs to %s, and what is made here to %s; images hold the memory of programs, so use a directory of your own", h, st.Owner, own)
	case st.Mode&0o077 != 0:
		return nil, fmt.Errorf("%s is open to others (mode %o); images hold the memory of programs: hdfs dfs -chmod 700 %s", h, st.Mode, dir)
	}
	return h, nil
}

// owner returns to whom a new directory belongs. A superuser may write where somebody else decides what becomes of it, and a
// name node may take a principal for whom it likes.
func (h *hdfsPlace) owner(ctx context.Context) (string, error) {
	var b [8]byte
	rand.Read(b[:])
	name := path.Join(h.dir, ".tmp-"+hex.EncodeToString(b[:]))
	if err := h.c.MkdirAll(ctx, name, 0o700); err != nil {
		return "", err
	}
	st, err := h.c.Stat(ctx, name)
	return st.Owner, errors.Join(err, h.c.RemoveAll(context.WithoutCancel(ctx), name))
}

func (h *hdfsPlace) String() string { return h.c.String() + h.dir }

// with calls do with the path of a name.
func (h *hdfsPlace) with(name string, do func(path string) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	return do(path.Join(h.dir, name))
}

func (h *hdfsPlace) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	return h.with(name, func(path string) error { return h.c.Create(ctx, path, 0o600, write) })
}

// resumePauses are for how long is waited, each time in a row that a connection has brought nothing, until contents
// are read on: a data node that is started anew is back after that. Tests shorten them.
var resumePauses = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 16 * time.Second}

func (h *hdfsPlace) Open(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = h.with(name, func(path string) error {
		file, err := h.c.Stat(ctx, path)
		r = h.c.Resume(ctx, path, file, resumePauses...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (h *hdfsPlace) Mkdir(ctx context.Context, name string) error {
	return h.with(name, func(path string) error { return h.c.MkdirAll(ctx, path, 0o700) })
}

func (h *hdfsPlace) Rename(ctx context.Context, from, to string) error {
	if err := errors.Join(checkName(from), checkName(to)); err != nil {
		return err
	}
	source, target := path.Join(h.dir, from), path.Join(h.dir, to)
	if _, err := h.c.Stat(ctx, target); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	err := h.c.Rename(ctx, source, target)
	if err == nil {
		return nil
	}
	// The answer to a first try may have been lost.
	if _, serr := h.c.Stat(ctx, target); serr == nil {
		return nil
	}
	if errors.Is(err, hdfs.ErrRefused) {
		err = &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	return err
}

func (h *hdfsPlace) List(ctx context.Context, dir string) (list []Object, err error) {
	err = h.with(dir, func(path string) error {
		found, err := h.c.ReadDir(ctx, path)
		for _, f := range found {
			if checkName(f.Name) == nil {
				list = append(list, Object{Name: f.Name, Dir: f.Dir, Size: f.Size, Modified: f.Modified})
			}
		}
		return err
	})
	return list, err
}

func (h *hdfsPlace) Touch(ctx context.Context, name string) error {
	now, err := h.Now(ctx)
	if err != nil {
		return err
	}
	return h.with(name, func(path string) error { return h.c.SetModified(ctx, path, now) })
}

func (h *hdfsPlace) Remove(ctx context.Context, name string) error {
	if name == "" {
		return errors.New("the place itself is not removed")
	}
	return h.with(name, func(path string) error { return h.c.RemoveAll(ctx, path) })
}

// Now returns the name node's clock, to a second.
func (h *hdfsPlace) Now(ctx context.Context) (time.Time, error) { return h.c.Now(ctx, h.dir) }
