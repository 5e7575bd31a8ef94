package meta

import (
	"encoding/binary"
	"errors"
)

// errCode is the error for bytes that are no record.
var errCode = errors.New("meta: not a record of this version")

// coder writes a value to bytes, or reads it from them: one description serves both, so
// that they cannot differ. Numbers are varints; texts, bytes and lists begin with their
// length. What is read has copies of all bytes. After an error all values are zero.
type coder struct {
	version byte
	reading bool
	b       []byte // what was written, or is left to be read
	err     error
}

// coded is what has such a description.
type coded interface{ code(*coder) }

// encode returns the bytes of a value, after its version.
func encode(version byte, v coded) []byte {
	c := coder{version: version, b: []byte{version}}
	v.code(&c)
	return c.b
}

// decode reads what encode has written. Bytes of another version, cut ones, and ones with
// something behind them are errors.
func decode(version byte, b []byte, v coded) error {
	if len(b) == 0 || b[0] != version {
		return errCode
	}
	c := coder{version: version, reading: true, b: b[1:]}
	v.code(&c)
	if c.err == nil && len(c.b) > 0 {
		c.err = errCode
	}
	return c.err
}

func (c *coder) fail() { c.err, c.b = errCode, nil }

// number codes an integer as an unsigned varint.
func number[T ~int | ~int64 | ~uint64 | ~uint32 | ~uint16 | ~uint8](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.b)
	if c.err != nil || n <= 0 || uint64(T(u)) != u {
		c.fail()
		u, n = 0, 0
	}
	*v, c.b = T(u), c.b[n:]
}

// signed codes an integer that may be negative.
func (c *coder) signed(v *int64) {
	u := uint64(*v)<<1 ^ uint64(*v>>63)
	number(c, &u)
	*v = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) flag(v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	number(c, &u)
	if u > 1 {
		c.fail()
	}
	*v = u == 1
}

func text[T ~string](c *coder, v *T) {
	n := len(*v)
	number(c, &n)
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n < 0 || n > len(c.b) {
		c.fail()
		n = 0
	}
	*v, c.b = T(c.b[:n]), c.b[n:]
}

// bytes codes bytes; nil and none are different.
func (c *coder) bytes(v *[]byte) {
	some := *v != nil
	c.flag(&some)
	if !some {
		*v = nil
		return
	}
	s := string(*v)
	text(c, &s)
	*v = []byte(s)
}

// list codes a list; each of its elements takes at least a byte.
func list[T any](c *coder, v *[]T, each func(*coder, *T)) {
	n := len(*v)
	number(c, &n)
	if c.reading {
		if n < 0 || n > len(c.b) {
			c.fail()
			n = 0
		}
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}

func texts(c *coder, v *[]string) { list(c, v, text[string]) }

// ending reports whether there is more at the end of a record, of what those from before do not have.
func (c *coder) ending(more bool) bool {
	if c.reading {
		return len(c.b) > 0
	}
	return more
}

// optional codes a pointer.
func optional[T any](c *coder, v **T, each func(*coder, *T)) {
	some := *v != nil
	c.flag(&some)
	if !some {
		*v = nil
		return
	}
	if c.reading {
		*v = new(T)
	}
	each(c, *v)
}
