package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Resume returns the contents of a file that is what Stat has said, all of them: where a connection ends
// before the file does it reads on over another one. A data node from which nothing comes for a minute is given up, and another
// one is read from if there is one. A file that was changed meanwhile is an error. When a connection has brought nothing, which may be that of a data node that is just being
// started anew, it waits for the next of pauses before it tries again; without one that is the error. The caller closes it; reading ends with ctx.
// It is not for concurrent use.
func (c *Client) Resume(ctx context.Context, path string, file FileInfo, pauses ...time.Duration) io.ReadCloser {
	return &resumed{ctx: ctx, client: c, path: path, file: file, pauses: pauses, left: pauses}
}

type resumed struct {
	ctx          context.Context
	client       *Client
	path         string
	file         FileInfo // as it was at the beginning
	pauses, left []time.Duration

	r        io.ReadCloser
	at, from int64 // from is where r begins
	// still are the addresses of data nodes from which nothing came any more.
	still []string
}

func (r *resumed) Read(p []byte) (int, error) {
	if r.r == nil {
		if err := r.connect(); err != nil {
			return 0, r.pause(r.noted(err))
		}
	}
	n, err := r.r.Read(p)
	r.at += int64(n)
	switch {
	case err == nil, r.at >= r.file.Size, r.ctx.Err() != nil:
		return n, err
	case errors.Is(err, io.EOF): // the connection may end as if it were the end of the file
		err = fmt.Errorf("%s has %d bytes, and %d of them came: %w", r.path, r.file.Size, r.at, io.ErrUnexpectedEOF)
	}
	err = r.noted(err)
	r.Close()
	r.r = nil
	if r.at > r.from {
		r.left = r.pauses
		return n, nil
	}
	return n, r.pause(err)
}

func (r *resumed) connect() error {
	if r.at > 0 {
		if i, err := r.client.Stat(r.ctx, r.path); err != nil {
			return err
		} else if i != r.file {
			r.left = nil
			return fmt.Errorf("%s was changed while it was read", r.path)
		}
	}
	o, err := r.client.openWithout(r.ctx, r.path, r.at, r.still)
	if err != nil && r.still != nil && r.ctx.Err() == nil { // perhaps only these have it
		r.still = nil
		o, err = r.client.OpenAt(r.ctx, r.path, r.at)
	}
	if err != nil {
		return err
	}
	r.r, r.from = o, r.at
	return nil
}

// noted remembers which data node an error is about that was given up.
func (r *resumed) noted(err error) error {
	if e := (*stillError)(nil); errors.As(err, &e) && e.node != "" {
		r.still = append(r.still, e.node)
	}
	return err
}

// pause waits until it may be tried again, else returns the error.
func (r *resumed) pause(err error) error {
	if len(r.left) == 0 || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	select {
	case <-time.After(r.left[0]):
		r.left = r.left[1:]
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// Close ends it.
func (r *resumed) Close() error {
	if r.r == nil {
		return nil
	}
	return r.r.Close()
}
