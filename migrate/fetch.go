package migrate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"headrace/engine/yarn"
	"headrace/proc/checkpoint"
)

// Target says where an entry is fetched to.
type Target struct {
	// Store gets the images, as those of Task, in place of all that it has of it.
	Store *checkpoint.Store
	Task  string
	// Roots are the directories below which files may be recreated.
	Roots []Root
	// Resources are those of the relaunch.
	Resources []yarn.Resource
}

// Fetched is what was fetched.
type Fetched struct {
	Image *checkpoint.Image
	undo  func() error
}

// Undo removes the files that were made. The images are the store's to remove.
func (f *Fetched) Undo() error { return f.undo() }

// Fetch brings the entry's images into a store and recreates its files, and renews
// the claim meanwhile. Every byte is checked before it is used. If it fails,
// everything that was made is removed again. Images have been found to be what was
// put; that they can be restored is for Image.Verify to say.
func (c *Claim) Fetch(ctx context.Context, t Target) (*Fetched, error) {
	ctx, stop := c.renewing(ctx)
	defer stop()
	u := &unpacker{roots: t.Roots}
	im, err := t.Store.Import(ctx, t.Task, func(create func(string) (*os.File, error)) error {
		err := c.each(ctx, func(f File, data *Contents) error {
			if f.In == InPlace {
				return u.add(lead(f, t.Resources), data)
			}
			return importFile(create, f, data)
		})
		if err != nil {
			return err
		}
		return u.finish()
	})
	if err != nil {
		return nil, c.fail("fetch", errors.Join(err, u.undo()))
	}
	return &Fetched{Image: im, undo: u.undo}, nil
}

// lead makes a link that was carried lead to where this machine has what YARN has
// localized under its name.
func lead(f File, resources []yarn.Resource) File {
	if f.Type == Symlink && yarn.Localized(f.Link) {
		f.Link = cmp.Or(yarn.Find(resources, f.Path), f.Link)
	}
	return f
}

func importFile(create func(string) (*os.File, error), f File, data *Contents) error {
	to, err := create(f.Path)
	if err != nil {
		return err
	}
	return errors.Join(data.WriteToFile(to), to.Close())
}

// each calls do with every file of the entry, in order. What do leaves of the data
// is passed over.
func (c *Claim) each(ctx context.Context, do func(File, *Contents) error) error {
	blocks, err := newBlockReader(ctx, c.a.place, c.Entry().dir(), c.Manifest)
	if err != nil {
		return err
	}
	defer blocks.close()
	r, buf := bufio.NewReaderSize(blocks, 64<<10), make([]byte, maxChunk)
	for _, f := range c.Manifest.Files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if f.Type != Regular {
			if err := do(f, nil); err != nil {
				return err
			}
			continue
		}
		data := &Contents{r: r, size: f.Size, buf: buf, step: func() error { return context.Cause(ctx) }}
		if err := do(f, data); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if err := data.Each(func(int64, []byte) error { return nil }); err != nil {
			return err
		}
	}
	switch _, err := r.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("%w: there are data after the last file", ErrCorrupt)
	default:
		return err
	}
}
