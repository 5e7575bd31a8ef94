package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"headrace/stream/protocol"
)

// Unit is the smallest thing that is dealt: some whole records, a batch of small
// files, a compressed file, or the name of a file. Its bytes are read once, from
// front to back, by Read or Use. It is valid until the next
// call of Next or Finish.
type Unit struct {
	c      *Client
	id     uint32
	path   string
	offset uint64
	codec  protocol.Codec

	// The client's mu guards what follows.
	ctx   context.Context
	taken bool // Next has returned it
	// pieces have come and were not read, but for the first skip bytes of the first.
	pieces []piece
	skip   int
	// position is how much was read, reported what of that is to be told.
	position, reported uint64
	// ended: all pieces have come, and size is known.
	ended        bool
	size         uint64
	unterminated bool
	// whole: nothing of it is needed any more.
	whole bool
}

// ID returns the number of the unit in its stream.
func (u *Unit) ID() uint32 { return u.id }

// Path returns the file that the unit begins in; any bytes but NUL.
func (u *Unit) Path() string { return u.path }

// Offset returns where in that file the unit begins, in bytes.
func (u *Unit) Offset() uint64 { return u.offset }

// Codec tells how the unit's bytes are compressed; Open decompresses.
func (u *Unit) Codec() protocol.Codec { return u.codec }

// Unterminated tells, once the unit has been read to its end, whether its last
// record lacks its delimiter because it is the last of its file. It is not known
// for compressed units.
func (u *Unit) Unterminated() bool {
	u.c.mu.Lock()
	defer u.c.mu.Unlock()
	return u.unterminated
}

// Use waits until there are bytes to be read and calls f with as many as lie in
// one piece, or are read at a time. They may belong to the daemon: f must not write
// to them nor keep them. It returns how many of them it has read, and an error, which Use returns after
// having taken note of the number. At the end of the unit the error is io.EOF.
//
// Disconnect waits for f, so f must not block for long.
func (u *Unit) Use(f func(p []byte) (n int, err error)) error {
	return u.use(func(p piece) (int, error) {
		data, err := p.bytes(u.c.buffer())
		if err != nil {
			return 0, err
		}
		n, err := f(data)
		if n < 0 || n > len(data) {
			panic(fmt.Sprintf("consumer: %d bytes of %d were used", n, len(data)))
		}
		return n, err
	})
}

// use is Use for pieces.
func (u *Unit) use(f func(p piece) (n int, err error)) error {
	p, err := u.borrow()
	if err != nil {
		return err
	}
	n := 0
	defer func() { u.giveBack(n) }()
	if !p.inFile() {
		n, err = f(p)
		return err
	}
	// If it cannot be read, to grow is to change.
	_ = p.arena.check.Learn(p.arena.file)
	n, err = f(p)
	return u.checked(p.arena, err)
}

// checked returns the outcome of a read of a file: that it has changed counts more than
// anything else.
func (u *Unit) checked(a *arena, err error) error {
	var failed *readError
	if changed := a.changed(); changed != nil {
		err = &DataError{u.path, u.codec, changed}
	} else if errors.As(err, &failed) {
		err = &DataError{u.path, u.codec, failed.err}
	}
	return err
}

// More waits until there are bytes to be read, or the unit has ended.
func (u *Unit) More() (bool, error) {
	_, err := u.borrow()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	u.giveBack(0)
	return true, nil
}

// borrow waits for bytes and marks them as lent.
func (u *Unit) borrow() (piece, error) {
	c := u.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.unit != u || c.finish != nil:
			return piece{}, ErrStale
		case u.whole:
			return piece{}, io.EOF
		case c.err == nil && !c.closed && c.live != nil && len(u.pieces) > 0:
			c.lent = true
			return u.pieces[0].rest(u.skip), nil
		case u.reported < u.position:
			// The daemon may wait for room before it sends more.
			u.reported = u.position
			c.mu.Unlock()
			c.tell()
			c.mu.Lock()
			continue
		}
		if err := c.wait(u.ctx); err != nil {
			return piece{}, err
		}
	}
}

// giveBack ends a loan of which n bytes were read.
func (u *Unit) giveBack(n int) {
	c := u.c
	c.mu.Lock()
	c.lent = false
	u.position += uint64(n)
	u.skip += n
	if u.skip == u.pieces[0].n {
		u.pop()
	}
	u.complete()
	news := u.whole || u.skip == 0 && u.position-u.reported >= reportAfter
	if news {
		u.reported = u.position
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	if news {
		c.tell()
	}
}

// pop drops the first piece. Callers hold mu.
func (u *Unit) pop() {
	p := u.pieces[0]
	u.pieces, u.skip = u.pieces[1:], 0
	if s := u.c.live; s != nil {
		s.done(p)
	}
}

// complete marks a unit that was read to its end. Callers hold mu.
func (u *Unit) complete() {
	if u.ended && u.position == u.size && u.c.welcome.Kind == protocol.Records {
		u.whole, u.reported = true, u.position
	}
}

// within makes ctx govern what waits for the unit's bytes from now on.
func (u *Unit) within(ctx context.Context) {
	u.c.mu.Lock()
	defer u.c.mu.Unlock()
	u.ctx = ctx
}

// pass reads over the rest.
func (u *Unit) pass(ctx context.Context) error {
	u.within(ctx)
	if u.c.Welcome().Kind == protocol.Files {
		u.Done()
		return nil
	}
	for {
		err := u.use(func(p piece) (int, error) { return p.n, nil })
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Done reports that a unit of a stream of files is not needed any more. Next does
// the same. Units of records are done when they have been read.
func (u *Unit) Done() {
	c := u.c
	c.mu.Lock()
	if c.unit == u && c.welcome.Kind == protocol.Files {
		u.whole = true
	}
	c.mu.Unlock()
	c.tell()
}

// Read implements io.Reader. It copies; Use does not.
func (u *Unit) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	err = u.Use(func(q []byte) (int, error) {
		n = copy(p, q)
		return n, nil
	})
	return n, err
}
