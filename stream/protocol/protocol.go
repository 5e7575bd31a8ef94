package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Version is what Hello carries.
const Version = 1

// MaxBody is the longest body of a frame.
const MaxBody = 64 << 20

// MaxShort is the longest body that the daemon takes of messages other than Hello and Given.
const MaxShort = 64 << 10

// MaxUnits bounds the units of a stream.
const MaxUnits = 1 << 28

// listMax is how many units are in one frame: what is left of MaxBody is for the other
// fields of Hello.
const listMax = (MaxBody - MaxShort) / 4

// Type is the type of a frame.
type Type uint8

// From consumers.
const (
	TypeHello Type = iota + 1
	TypeNext
	TypeConsumed
	TypeResult
	TypeFinish
	TypeGiven
)

// From the daemon.
const (
	TypeWelcome Type = iota + 16
	TypeArena
	TypeDrop
	TypeUnit
	TypePiece
	TypeEnd
	TypeEOF
	TypeError
	TypeFinished
	TypeFile
)

// Message is one frame.
type Message interface {
	Type() Type
	// fields puts all fields into c, or takes them from it, in order.
	fields(c *codec)
}

// Hello opens or reopens a connection.
type Hello struct {
	Version  uint32
	Stream   string
	Consumer uint32
	// Attempt is 1 for the first one. The daemon refuses attempts that it has
	// given up.
	Attempt uint32
	// Units are those that this attempt was given so far, in order. Append puts what is
	// too long for one frame into Given before it, and Conn.Receive puts it together again.
	Units []uint32
	// Position is how much of the last of Units has been consumed; all of it when
	// Whole.
	Position uint64
	Whole    bool
}

// Given is a part of the Units of the Hello that follows, as long as a frame can have.
type Given struct{ Units []uint32 }

// Next asks for a unit.
type Next struct{}

// Consumed says that the first Bytes of a unit are not needed any more. Whole
// is set with the last of them.
type Consumed struct {
	Unit  uint32
	Bytes uint64
	Whole bool
}

// Result tells the exit code of the command that was run for a file unit, for
// people.
type Result struct {
	Unit uint32
	Code int32
}

// Finish ends the attempt. With code 0 its units are read, also a last one of which it has
// not read everything, unless the daemon comes to take its end for none. With another it keeps
// them until the daemon gives it up.
type Finish struct {
	Code   int32
	Reason string
}

// Kind is what the units of a stream are.
type Kind uint8

const (
	// Records: whole records; the last of a unit may lack its delimiter.
	Records Kind = iota
	// Files: names of files.
	Files
)

// Welcome answers Hello.
type Welcome struct {
	Kind Kind
	// Delimiter ends a record, empty for records without one. A consumer that
	// strings units together puts one after a unit that is Unterminated, before
	// the next.
	Delimiter string
	Bytes     uint64
	Units     uint32
}

// Arena announces shared memory; its descriptor comes with the frame.
type Arena struct {
	ID   uint32
	Size uint64
}

// File announces a file in which pieces lie as in an arena; its descriptor comes
// with the frame. ID is one of the numbers of arenas. Size, in bytes, and Mtime, in
// nanoseconds, are those by which the consumer sees that the file is still what it
// was.
type File struct {
	ID    uint32
	Size  uint64
	Mtime uint64
}

// Drop says that an arena or a file will not be used again.
type Drop struct{ ID uint32 }

// Codec is how a unit's bytes are compressed. The consumer decompresses.
type Codec uint8

// The codecs.
const (
	Plain Codec = iota
	Gzip
	Zstd
)

// Unit begins a unit.
type Unit struct {
	ID uint32
	// Path is the file, for Files and for people.
	Path   string
	Offset uint64
	Codec  Codec
}

// Piece is the next bytes of a unit.
type Piece struct {
	Unit uint32
	// Arena, Offset and Length say where they are, in an arena or a file.
	Arena  uint32
	Offset uint64
	Length uint32
}

// End completes a unit.
type End struct {
	Unit uint32
	// Bytes is the size of all of its pieces, those of earlier connections
	// included.
	Bytes uint64
	// Unterminated: the last record has no delimiter, being the last of its file.
	Unterminated bool
}

// EOF says that nothing is left for this consumer.
type EOF struct{}

// Error ends the attempt: the stream failed, or the attempt was given up.
type Error struct{ Text string }

// Finished answers Finish.
type Finished struct{}

func (*Hello) Type() Type    { return TypeHello }
func (*Given) Type() Type    { return TypeGiven }
func (*Next) Type() Type     { return TypeNext }
func (*Consumed) Type() Type { return TypeConsumed }
func (*Result) Type() Type   { return TypeResult }
func (*Finish) Type() Type   { return TypeFinish }
func (*Welcome) Type() Type  { return TypeWelcome }
func (*Arena) Type() Type    { return TypeArena }
func (*Drop) Type() Type     { return TypeDrop }
func (*Unit) Type() Type     { return TypeUnit }
func (*Piece) Type() Type    { return TypePiece }
func (*End) Type() Type      { return TypeEnd }
func (*EOF) Type() Type      { return TypeEOF }
func (*Error) Type() Type    { return TypeError }
func (*Finished) Type() Type { return TypeFinished }
func (*File) Type() Type     { return TypeFile }

// blanks makes messages to be parsed, by type.
var blanks = [...]func() Message{
	TypeHello:    func() Message { return &Hello{} },
	TypeGiven:    func() Message { return &Given{} },
	TypeNext:     func() Message { return &Next{} },
	TypeConsumed: func() Message { return &Consumed{} },
	TypeResult:   func() Message { return &Result{} },
	TypeFinish:   func() Message { return &Finish{} },
	TypeWelcome:  func() Message { return &Welcome{} },
	TypeArena:    func() Message { return &Arena{} },
	TypeDrop:     func() Message { return &Drop{} },
	TypeUnit:     func() Message { return &Unit{} },
	TypePiece:    func() Message { return &Piece{} },
	TypeEnd:      func() Message { return &End{} },
	TypeEOF:      func() Message { return &EOF{} },
	TypeError:    func() Message { return &Error{} },
	TypeFinished: func() Message { return &Finished{} },
	TypeFile:     func() Message { return &File{} },
}

func (m *Hello) fields(c *codec) {
	var unused uint8 // a flag that nobody sets
	c.u32(&m.Version).str(&m.Stream).u32(&m.Consumer).u32(&m.Attempt).u8(&unused)
	c.bad = c.bad || unused != 0
	c.list(&m.Units).u64(&m.Position).flag(&m.Whole)
}

func (m *Given) fields(c *codec)    { c.list(&m.Units) }
func (*Next) fields(*codec)         {}
func (m *Consumed) fields(c *codec) { c.u32(&m.Unit).u64(&m.Bytes).flag(&m.Whole) }
func (m *Result) fields(c *codec)   { c.u32(&m.Unit).i32(&m.Code) }
func (m *Finish) fields(c *codec)   { c.i32(&m.Code).str(&m.Reason) }
func (m *Welcome) fields(c *codec) {
	c.u8((*uint8)(&m.Kind)).str(&m.Delimiter).u64(&m.Bytes).u32(&m.Units).flag(new(bool)) // the last once told of something that is no more
}
func (m *Arena) fields(c *codec) { c.u32(&m.ID).u64(&m.Size) }
func (m *File) fields(c *codec)  { c.u32(&m.ID).u64(&m.Size).u64(&m.Mtime) }
func (m *Drop) fields(c *codec)  { c.u32(&m.ID) }
func (m *Unit) fields(c *codec)  { c.u32(&m.ID).str(&m.Path).u64(&m.Offset).u8((*uint8)(&m.Codec)) }
func (m *Piece) fields(c *codec) { c.u32(&m.Unit).u32(&m.Arena).u64(&m.Offset).u32(&m.Length) }
func (m *End) fields(c *codec)   { c.u32(&m.Unit).u64(&m.Bytes).flag(&m.Unterminated) }
func (*EOF) fields(*codec)       {}
func (m *Error) fields(c *codec) { c.str(&m.Text) }
func (*Finished) fields(*codec)  {}

// header is the length and the type.
const header = 5

// Append appends the frame of m to b; of a Hello with very many units there are several.
func Append(b []byte, m Message) ([]byte, error) {
	start := len(b)
	if h, is := m.(*Hello); is && len(h.Units) > listMax {
		last := *h
		for ; len(last.Units) > listMax; last.Units = last.Units[listMax:] {
			var err error
			if b, err = Append(b, &Given{last.Units[:listMax]}); err != nil {
				return b[:start], err
			}
		}
		b, err := Append(b, &last)
		if err != nil {
			return b[:start], err
		}
		return b, nil
	}
	c := &codec{b: append(b, 0, 0, 0, 0, byte(m.Type()))}
	m.fields(c)
	b = c.b
	n := len(b) - start - header
	if n > MaxBody || n > math.MaxUint32 {
		return b[:start], fmt.Errorf("a frame of %d bytes is longer than the protocol allows (%d)", n, MaxBody)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	return b, nil
}

// ErrMalformed: what came is no frame of this protocol.
var ErrMalformed = errors.New("malformed frame")

// Parse reads the body of a frame. The message may refer to body.
func Parse(t Type, body []byte) (Message, error) {
	if int(t) >= len(blanks) || blanks[t] == nil {
		return nil, fmt.Errorf("%w: unknown type %d", ErrMalformed, t)
	}
	m, c := blanks[t](), &codec{b: body, parsing: true}
	m.fields(c)
	if c.bad || len(c.b) != 0 {
		return nil, fmt.Errorf("%w of type %d, %d bytes", ErrMalformed, t, len(body))
	}
	return m, nil
}

// codec puts values at the end of b or, parsing, takes them off its front; bad is set
// when they run out or make no sense.
type codec struct {
	b            []byte
	parsing, bad bool
}

// field returns a number of n bytes, the first the most significant. What is sent is
// only read: several connections may send one message.
func field[T uint8 | uint32 | uint64 | int32](c *codec, n int, v *T) *codec {
	if !c.parsing {
		for n--; n >= 0; n-- {
			c.b = append(c.b, byte(uint64(*v)>>(8*n)))
		}
		return c
	}
	x := uint64(0)
	for _, b := range c.take(n) {
		x = x<<8 | uint64(b)
	}
	*v = T(x)
	return c
}

func (c *codec) take(n int) []byte {
	if c.bad || len(c.b) < n {
		c.bad = true
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *codec) u8(v *uint8) *codec   { return field(c, 1, v) }
func (c *codec) u32(v *uint32) *codec { return field(c, 4, v) }
func (c *codec) u64(v *uint64) *codec { return field(c, 8, v) }
func (c *codec) i32(v *int32) *codec  { return field(c, 4, v) }

func (c *codec) str(s *string) *codec {
	n := uint32(len(*s))
	c.u32(&n)
	if !c.parsing {
		c.b = append(c.b, *s...)
	} else if uint64(n) > uint64(len(c.b)) {
		c.bad = true
	} else {
		*s = string(c.take(int(n)))
	}
	return c
}

// list is a number of units, and that many.
func (c *codec) list(v *[]uint32) *codec {
	n := uint32(len(*v))
	c.u32(&n)
	if !c.parsing {
		c.b = slices.Grow(c.b, 4*len(*v))
		for _, u := range *v {
			c.b = binary.BigEndian.AppendUint32(c.b, u)
		}
		return c
	}
	if int(n) > len(c.b)/4 {
		c.bad = true
		return c
	}
	body := c.take(4 * int(n))
	*v = make([]uint32, n)
	for i := range *v {
		(*v)[i] = binary.BigEndian.Uint32(body[4*i:])
	}
	return c
}

func (c *codec) flag(v *bool) *codec {
	var bit uint8
	if *v {
		bit = 1
	}
	c.u8(&bit)
	if c.parsing {
		*v, c.bad = bit == 1, c.bad || bit > 1
	}
	return c
}
