package protocol

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// samples has every message, with ordinary and extreme values.
func samples() []Message {
	long := strings.Repeat("x", 1<<16)
	return []Message{
		&Hello{},
		&Hello{Version: Version, Stream: "s1", Consumer: 3, Attempt: 2, Units: []uint32{7, 0, 1<<32 - 1}, Position: 1<<64 - 1, Whole: true},
		&Given{}, &Given{[]uint32{1, 0}},
		&Next{},
		&Consumed{}, &Consumed{Unit: 1, Bytes: 1 << 40, Whole: true},
		&Result{Unit: 9, Code: -1}, &Result{Unit: 1<<32 - 1, Code: 137},
		&Finish{}, &Finish{Code: -2, Reason: "it \x00 \xff ended"},
		&Welcome{}, &Welcome{Kind: Files, Delimiter: "\r\n", Bytes: 1 << 50, Units: 12},
		&Arena{}, &Arena{ID: 1, Size: 100 << 20},
		&Drop{}, &Drop{ID: 4},
		&Unit{}, &Unit{ID: 5, Path: "/a\xff\n" + long, Offset: 1 << 33, Codec: Zstd},
		&Piece{Unit: 1, Arena: 2, Offset: 1 << 41, Length: 2 << 20},
		&Piece{},
		&End{}, &End{Unit: 1, Bytes: 5, Unterminated: true},
		&EOF{}, &Error{}, &Error{Text: "gone"}, &Finished{},
		&File{}, &File{ID: 1, Size: 1 << 40, Mtime: 1<<64 - 1},
	}
}

func encode(t testing.TB, m Message) []byte {
	t.Helper()
	b, err := Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// normal makes empty and absent slices the same.
func normal(m Message) Message {
	switch m := m.(type) {
	case *Hello:
		if len(m.Units) == 0 {
			m.Units = nil
		}
	case *Given:
		if len(m.Units) == 0 {
			m.Units = nil
		}
	}
	return m
}

func TestEveryMessageComesBack(t *testing.T) {
	seen := make(map[Type]bool)
	for _, m := range samples() {
		seen[m.Type()] = true
		b := encode(t, m)
		if Type(b[4]) != m.Type() {
			t.Errorf("%T is sent as type %d, want %d", m, b[4], m.Type())
		}
		got, err := Parse(Type(b[4]), b[header:])
		if err != nil || !reflect.DeepEqual(normal(got), normal(m)) {
			t.Errorf("%#v comes back as %#v, %v", m, got, err)
		}
	}
	for i := range 256 {
		if known := i < len(blanks) && blanks[i] != nil; known != seen[Type(i)] {
			t.Errorf("type %d: known %v, tried %v", i, known, seen[Type(i)])
		}
	}
}

// Random values come back, too.
func TestRandomMessagesComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		m := samples()[r.IntN(len(samples()))]
		scramble(r, reflect.ValueOf(m).Elem())
		b := encode(t, m)
		got, err := Parse(m.Type(), b[header:])
		if err != nil || !reflect.DeepEqual(normal(got), normal(m)) {
			t.Fatalf("%#v comes back as %#v, %v", m, got, err)
		}
	}
}

func scramble(r *rand.Rand, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(r.IntN(2) == 0)
		case reflect.Int32:
			f.SetInt(int64(int32(r.Uint32())))
		case reflect.Uint8, reflect.Uint32, reflect.Uint64:
			f.SetUint(r.Uint64() >> r.IntN(64) & (1<<(8*f.Type().Size()-1)<<1 - 1))
		case reflect.String:
			b := make([]byte, r.IntN(40))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			f.SetString(string(b))
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.Uint32 {
				units := make([]uint32, r.IntN(10))
				for i := range units {
					units[i] = r.Uint32()
				}
				f.Set(reflect.ValueOf(units))
			}
		}
	}
}

// A body that is cut short, or has a byte too many, is refused.
func TestParseWantsTheWholeBody(t *testing.T) {
	for _, m := range samples() {
		b := encode(t, m)[header:]
		for n := range len(b) {
			if n > 200 && n < len(b)-200 {
				continue
			}
			if got, err := Parse(m.Type(), b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %T are taken for %#v", n, len(b), m, got)
			}
		}
		if got, err := Parse(m.Type(), append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%T with a byte too many is taken for %#v", m, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		typ  Type
		body []byte
	}{
		"type 0":             {0, nil},
		"unknown type":       {200, nil},
		"a long string":      {TypeError, huge},
		"many units":         {TypeHello, append([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, huge...)},
		"a flag of 2":        {TypeConsumed, append(make([]byte, 12), 2)},
		"a flag of Hello":    {TypeHello, append(append(make([]byte, 16), 1), make([]byte, 13)...)},
		"data beside memory": {TypePiece, append(encode(t, &Piece{Arena: 1, Length: 3})[header:], "abc"...)},
	} {
		if m, err := Parse(c.typ, c.body); err == nil {
			t.Errorf("%s: parsed as %#v", name, m)
		}
	}
}

func TestAppendRefusesWhatIsTooLong(t *testing.T) {
	long := string(make([]byte, MaxBody))
	before := []byte("before")
	b, err := Append(before, &Error{Text: long})
	if err == nil || string(b) != "before" {
		t.Errorf("a frame beyond the limit: %v, %d bytes are left", err, len(b))
	}
	if _, err := Append(nil, &Error{Text: long[4:]}); err != nil {
		t.Errorf("a frame at the limit: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range samples() {
		b := encode(f, m)
		f.Add(b[4], b[header:min(len(b), 300)])
	}
	f.Fuzz(func(t *testing.T, typ byte, body []byte) {
		m, err := Parse(Type(typ), bytes.Clone(body))
		if err != nil {
			return
		}
		b, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if b[4] != typ || !bytes.Equal(b[header:], body) {
			t.Fatalf("%x of type %d is %#v, which is %x", body, typ, m, b)
		}
	})
}
