package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The numbers that image files begin with, before one that says what is in them.
const (
	commonMagic  = 0x54564319
	serviceMagic = 0x55105940
)

// maxFile limits what is read into memory: a description of a process takes
// kilobytes, and the pages of memory are not read here.
const maxFile = 256 << 20

// A File is an image file that holds messages and nothing else.
type File struct {
	head    []byte // the magic numbers
	Entries []Message
}

// Parse reads the contents of an image file. The result refers to b, which the
// caller leaves alone from then on.
func Parse(b []byte) (*File, error) {
	head, rest, err := splitHead(b)
	if err != nil {
		return nil, err
	}
	f := &File{head: head}
	for len(rest) > 0 {
		var m Message
		if m, rest, err = nextMessage(rest); err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(f.Entries), err)
		}
		f.Entries = append(f.Entries, m)
	}
	return f, nil
}

func splitHead(b []byte) (head, rest []byte, err error) {
	n := 4
	if len(b) >= n {
		if first := binary.LittleEndian.Uint32(b); first == commonMagic || first == serviceMagic {
			n = 8
		}
	}
	if len(b) < n {
		return nil, nil, errors.New("it is too short for an image of CRIU")
	}
	return b[:n:n], b[n:], nil
}

func nextMessage(b []byte) (m Message, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%d bytes are left where a length is expected", len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n > int64(len(b)) {
		return nil, nil, fmt.Errorf("%d bytes are left of %d", len(b), n)
	}
	m, err = ParseMessage(b[:n:n])
	return m, b[n:], err
}

// Encode returns the contents of the file.
func (f *File) Encode() []byte {
	b := append([]byte{}, f.head...)
	for _, m := range f.Entries {
		e := m.Encode()
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e)))
		b = append(b, e...)
	}
	return b
}

// Read reads an image file.
func Read(path string) (*File, error) {
	b, err := readAll(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// readAll reads a regular file of at most maxFile bytes.
func readAll(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Size() > maxFile:
		return nil, fmt.Errorf("%s: %d bytes are too many for an image without pages", path, st.Size())
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Threads lists the images of an image directory that are named as those of threads.
func Threads(dir string) ([]string, error) { return Named(dir, "core-*.img") }

// ThreadOf returns the number of the thread that such an image is of, in its name.
func ThreadOf(path string) (tid int, err error) {
	return strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "core-"), ".img"))
}
