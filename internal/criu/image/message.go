package image

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Message is the fields of a protobuf message in the order of the file. Its
// methods never change the fields of the receiver; those that set a field return
// the new message.
type Message []Field

// A Field is one field of a message: its number, and its bytes as they are
// encoded, tag included.
type Field struct {
	Num  protowire.Number
	Type protowire.Type
	tag  int // length of the tag
	raw  []byte
}

// ParseMessage splits an encoded message into its fields. They refer to b, which
// the caller leaves alone from then on.
func ParseMessage(b []byte) (Message, error) {
	var m Message
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, fmt.Errorf("field %d of a message: %w", len(m), protowire.ParseError(tag))
		}
		n := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if n < 0 {
			return nil, fmt.Errorf("field %d of a message (number %d): %w", len(m), num, protowire.ParseError(n))
		}
		m = append(m, Field{Num: num, Type: typ, tag: tag, raw: b[:tag+n]})
		b = b[tag+n:]
	}
	return m, nil
}

// Encode returns the message as it stands in a file.
func (m Message) Encode() []byte {
	var n int
	for _, f := range m {
		n += len(f.raw)
	}
	b := make([]byte, 0, n)
	for _, f := range m {
		b = append(b, f.raw...)
	}
	return b
}

// find returns the index of the last field of that number and type, which is the
// one that counts; -1 without.
func (m Message) find(num protowire.Number, typ protowire.Type) int {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Num == num && m[i].Type == typ {
			return i
		}
	}
	return -1
}

// Uint returns an integer field as it is encoded; false without. Fields that the
// schema calls sint32 or sint64 need [protowire.DecodeZigZag].
func (m Message) Uint(num protowire.Number) (uint64, bool) {
	i := m.find(num, protowire.VarintType)
	if i < 0 {
		return 0, false
	}
	v, _ := protowire.ConsumeVarint(m[i].value())
	return v, true
}

// Uints returns all values of a repeated integer field, packed or not.
func (m Message) Uints(num protowire.Number) ([]uint64, error) {
	var list []uint64
	for _, f := range m {
		switch {
		case f.Num != num:
		case f.Type == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(f.value())
			list = append(list, v)
		case f.Type == protowire.BytesType:
			for b := f.bytes(); len(b) > 0; {
				v, n := protowire.ConsumeVarint(b)
				if n < 0 {
					return nil, fmt.Errorf("packed field %d: %w", num, protowire.ParseError(n))
				}
				list, b = append(list, v), b[n:]
			}
		}
	}
	return list, nil
}

// Bytes returns a string, bytes or message field; false without.
func (m Message) Bytes(num protowire.Number) ([]byte, bool) {
	i := m.find(num, protowire.BytesType)
	if i < 0 {
		return nil, false
	}
	return m[i].bytes(), true
}

// Message returns a field that is a message; nil without.
func (m Message) Message(num protowire.Number) (Message, error) {
	b, ok := m.Bytes(num)
	if !ok {
		return nil, nil
	}
	return ParseMessage(b)
}

// Messages returns all values of a repeated field of messages.
func (m Message) Messages(num protowire.Number) ([]Message, error) {
	var list []Message
	for _, f := range m {
		if f.Num != num || f.Type != protowire.BytesType {
			continue
		}
		sub, err := ParseMessage(f.bytes())
		if err != nil {
			return nil, err
		}
		list = append(list, sub)
	}
	return list, nil
}

// SetUint returns the message with an integer field set.
func (m Message) SetUint(num protowire.Number, v uint64) Message {
	b := protowire.AppendTag(nil, num, protowire.VarintType)
	tag := len(b)
	return m.set(Field{Num: num, Type: protowire.VarintType, tag: tag, raw: protowire.AppendVarint(b, v)})
}

// SetBytes returns the message with a string, bytes or message field set.
func (m Message) SetBytes(num protowire.Number, v []byte) Message {
	b := protowire.AppendTag(nil, num, protowire.BytesType)
	tag := len(b)
	return m.set(Field{Num: num, Type: protowire.BytesType, tag: tag, raw: protowire.AppendBytes(b, v)})
}

// SetMessage returns the message with a field set that is a message.
func (m Message) SetMessage(num protowire.Number, v Message) Message {
	return m.SetBytes(num, v.Encode())
}

// ChangeMessages returns the message with what change makes of each value of a repeated field of messages, and how many values
// it has changed.
func (m Message) ChangeMessages(num protowire.Number, change func(Message) (Message, bool)) (out Message, n int, err error) {
	out = append(out, m...)
	for i, f := range m {
		if f.Num != num || f.Type != protowire.BytesType {
			continue
		}
		sub, err := ParseMessage(f.bytes())
		if err != nil {
			return nil, 0, err
		}
		if sub, changed := change(sub); changed {
			out[i] = Message{}.SetMessage(num, sub)[0]
			n++
		}
	}
	return out, n, nil
}

// DeleteMessages returns the message without those values of a repeated field of messages that unwanted holds for.
func (m Message) DeleteMessages(num protowire.Number, unwanted func(Message) bool) (Message, error) {
	var out Message
	for _, f := range m {
		if f.Num == num && f.Type == protowire.BytesType {
			sub, err := ParseMessage(f.bytes())
			if err != nil {
				return nil, err
			}
			if unwanted(sub) {
				continue
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// set puts a field in the place of the last one of its number, else at the end.
func (m Message) set(f Field) Message {
	out := append(Message{}, m...)
	if i := m.find(f.Num, f.Type); i >= 0 {
		out[i] = f
		return out
	}
	return append(out, f)
}

func (f Field) value() []byte { return f.raw[f.tag:] }

func (f Field) bytes() []byte {
	b, _ := protowire.ConsumeBytes(f.value())
	return b
}
