package consumer

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"headrace/stream/protocol"
)

// maxWindow is how much memory a zstd file may ask for, as with the zstd program
// without options.
const maxWindow = 128 << 20

// DataError: a file cannot be decompressed, has changed, or ends in the middle of a record.
type DataError struct {
	Path  string
	Codec protocol.Codec
	Err   error
}

func (e *DataError) Error() string {
	if e.Codec == protocol.Plain {
		return fmt.Sprintf("%s cannot be read: %v", e.Path, e.Err)
	}
	if cut := (*cutRecord)(nil); errors.As(e.Err, &cut) {
		return fmt.Sprintf("%s %v", e.Path, cut)
	}
	name := map[protocol.Codec]string{protocol.Gzip: "gzip", protocol.Zstd: "zstd"}[e.Codec]
	return fmt.Sprintf("%s cannot be decompressed (%s: %v): it is damaged or incomplete", e.Path, name, e.Err)
}

func (e *DataError) Unwrap() error { return e.Err }

// cutRecord: a compressed file ends in the middle of a record of one size.
type cutRecord struct{ at, has, size int64 }

func (c *cutRecord) Error() string {
	return fmt.Sprintf("ends in the middle of a record: decompressed, its last one begins at byte %d and has %d bytes of %d; "+
		"what follows would be taken for the rest of it: mend the file, or split by another size", c.at, c.has, c.size)
}

// Open returns what the unit holds, decompressed. The caller closes it; that does
// not read the rest. Damaged data gives a *DataError.
func (u *Unit) Open() (io.ReadCloser, error) {
	if u.codec == protocol.Plain {
		return io.NopCloser(u), nil
	}
	in := &source{u: u}
	d := &decoder{in: in}
	var err error
	switch u.codec {
	case protocol.Gzip:
		d.out, err = newMembers(in), nil
	case protocol.Zstd:
		d.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		d.out = d.zstd
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", u.path, err)
	}
	return d, nil
}

// source is the compressed bytes of a unit. It remembers what went wrong with
// them, so that this is not taken for damaged data.
type source struct {
	u    *Unit
	read bool
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.u.Read(p)
	s.read = s.read || n > 0
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// decoder reads decompressed bytes.
type decoder struct {
	in   *source
	out  io.Reader
	zstd *zstd.Decoder
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.out.Read(p)
	switch {
	case err == nil:
		return n, nil
	case d.in.err != nil:
		return n, d.in.err
	case err == io.EOF && d.in.read:
		return n, io.EOF
	case err == io.EOF: // gzip and zstd refuse an empty file, too
		err = io.ErrUnexpectedEOF
	}
	return n, &DataError{d.in.u.path, d.in.u.codec, err}
}

func (d *decoder) Close() error {
	if d.zstd != nil {
		d.zstd.Close()
	}
	return nil
}

// members reads a gzip file, which is one or more members, one after the other.
// It goes from one to the next itself: gzip.Reader takes a header that is cut
// off in a name for the end. Zeros behind the last member are passed over, as
// the gzip program does.
type members struct {
	in *bufio.Reader
	z  *gzip.Reader
	// begun: there was a member; inside: it is being read.
	begun, inside bool
}

func newMembers(in io.Reader) *members {
	return &members{in: bufio.NewReaderSize(in, 64<<10), z: new(gzip.Reader)}
}

var errNotGzip = errors.New("what follows is not gzip")

func (m *members) Read(p []byte) (int, error) {
	for {
		if !m.inside {
			if err := m.begin(); err != nil {
				return 0, err
			}
		}
		n, err := m.z.Read(p)
		if err == io.EOF {
			m.inside = false
			err = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begin reads the header of the next member.
func (m *members) begin() error {
	zeros := false
	for {
		b, err := m.in.Peek(1)
		if err != nil {
			return err
		}
		if b[0] != 0 || !m.begun {
			break
		}
		zeros = true
		m.in.Discard(1) // it was peeked at
	}
	if zeros {
		return errNotGzip
	}
	err := m.z.Reset(m.in)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	m.z.Multistream(false)
	m.begun, m.inside = true, true
	return nil
}
