package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Version is what Hello carries.
const Version = 1

// MaxBody is the longest body of a frame.
const MaxBody = 64 << 20

// Type is the type of a frame.
type Type uint8

// From consumers.
const (
	TypeHello Type = iota + 1
	TypeNext
	TypeConsumed
	TypeResult
	TypeFinish
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
	append(b []byte) []byte
	parse(r *reader)
}

// Hello opens or reopens a connection.
type Hello struct {
	Version  uint32
	Stream   string
	Consumer uint32
	// Attempt is 1 for the first one. The daemon refuses attempts that it has
	// given up.
	Attempt uint32
	// Units are those that this attempt was given so far, in order.
	Units []uint32
	// Position is how much of the last of Units has been consumed; all of it when
	// Whole.
	Position uint64
	Whole    bool
}

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

// Finish ends the attempt. With code 0 its units are committed to it, also a
// last one of which it has not read everything.
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
	// Replay: the attempt's units are those of the committed one, in its order.
	Replay bool
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

func blank(t Type) Message {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeNext:
		return &Next{}
	case TypeConsumed:
		return &Consumed{}
	case TypeResult:
		return &Result{}
	case TypeFinish:
		return &Finish{}
	case TypeWelcome:
		return &Welcome{}
	case TypeArena:
		return &Arena{}
	case TypeDrop:
		return &Drop{}
	case TypeUnit:
		return &Unit{}
	case TypePiece:
		return &Piece{}
	case TypeEnd:
		return &End{}
	case TypeEOF:
		return &EOF{}
	case TypeError:
		return &Error{}
	case TypeFinished:
		return &Finished{}
	case TypeFile:
		return &File{}
	}
	return nil
}

func u32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func u64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }
func str(b []byte, s string) []byte { return append(u32(b, uint32(len(s))), s...) }
func flag(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func (m *Hello) append(b []byte) []byte {
	b = str(u32(b, m.Version), m.Stream)
	b = append(u32(u32(b, m.Consumer), m.Attempt), 0) // a flag that nobody sets
	b = u32(b, uint32(len(m.Units)))
	for _, u := range m.Units {
		b = u32(b, u)
	}
	return flag(u64(b, m.Position), m.Whole)
}

func (m *Hello) parse(r *reader) {
	m.Version, m.Stream = r.u32(), r.str()
	m.Consumer, m.Attempt = r.u32(), r.u32()
	if r.u8() != 0 {
		r.bad = true
	}
	n := r.u32()
	if int(n) > len(r.b)/4 {
		r.bad = true
		return
	}
	m.Units = make([]uint32, n)
	for i := range m.Units {
		m.Units[i] = r.u32()
	}
	m.Position, m.Whole = r.u64(), r.flag()
}

func (*Next) append(b []byte) []byte { return b }
func (*Next) parse(*reader)          {}

func (m *Consumed) append(b []byte) []byte {
	return flag(u64(u32(b, m.Unit), m.Bytes), m.Whole)
}
func (m *Consumed) parse(r *reader) { m.Unit, m.Bytes, m.Whole = r.u32(), r.u64(), r.flag() }

func (m *Result) append(b []byte) []byte { return u32(u32(b, m.Unit), uint32(m.Code)) }
func (m *Result) parse(r *reader)        { m.Unit, m.Code = r.u32(), int32(r.u32()) }

func (m *Finish) append(b []byte) []byte { return str(u32(b, uint32(m.Code)), m.Reason) }
func (m *Finish) parse(r *reader)        { m.Code, m.Reason = int32(r.u32()), r.str() }

func (m *Welcome) append(b []byte) []byte {
	b = str(append(b, byte(m.Kind)), m.Delimiter)
	return flag(u32(u64(b, m.Bytes), m.Units), m.Replay)
}

func (m *Welcome) parse(r *reader) {
	m.Kind, m.Delimiter = Kind(r.u8()), r.str()
	m.Bytes, m.Units, m.Replay = r.u64(), r.u32(), r.flag()
}

func (m *Arena) append(b []byte) []byte { return u64(u32(b, m.ID), m.Size) }
func (m *Arena) parse(r *reader)        { m.ID, m.Size = r.u32(), r.u64() }

func (m *File) append(b []byte) []byte { return u64(u64(u32(b, m.ID), m.Size), m.Mtime) }
func (m *File) parse(r *reader)        { m.ID, m.Size, m.Mtime = r.u32(), r.u64(), r.u64() }

func (m *Drop) append(b []byte) []byte { return u32(b, m.ID) }
func (m *Drop) parse(r *reader)        { m.ID = r.u32() }

func (m *Unit) append(b []byte) []byte {
	return append(u64(str(u32(b, m.ID), m.Path), m.Offset), byte(m.Codec))
}

func (m *Unit) parse(r *reader) {
	m.ID, m.Path, m.Offset, m.Codec = r.u32(), r.str(), r.u64(), Codec(r.u8())
}

func (m *Piece) append(b []byte) []byte {
	return u32(u64(u32(u32(b, m.Unit), m.Arena), m.Offset), m.Length)
}

func (m *Piece) parse(r *reader) {
	m.Unit, m.Arena, m.Offset, m.Length = r.u32(), r.u32(), r.u64(), r.u32()
}

func (m *End) append(b []byte) []byte {
	return flag(u64(u32(b, m.Unit), m.Bytes), m.Unterminated)
}
func (m *End) parse(r *reader) { m.Unit, m.Bytes, m.Unterminated = r.u32(), r.u64(), r.flag() }

func (*EOF) append(b []byte) []byte { return b }
func (*EOF) parse(*reader)          {}

func (m *Error) append(b []byte) []byte { return str(b, m.Text) }
func (m *Error) parse(r *reader)        { m.Text = r.str() }

func (*Finished) append(b []byte) []byte { return b }
func (*Finished) parse(*reader)          {}

// header is the length and the type.
const header = 5

// Append appends the frame of m to b.
func Append(b []byte, m Message) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.Type()))
	b = m.append(b)
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
	m := blank(t)
	if m == nil {
		return nil, fmt.Errorf("%w: unknown type %d", ErrMalformed, t)
	}
	r := &reader{b: body}
	m.parse(r)
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("%w of type %d, %d bytes", ErrMalformed, t, len(body))
	}
	return m, nil
}

// reader takes values off the front of b; bad is set when they run out.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() uint8 {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (r *reader) str() string {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) flag() bool {
	switch r.u8() {
	case 0:
	case 1:
		return true
	default:
		r.bad = true
	}
	return false
}
