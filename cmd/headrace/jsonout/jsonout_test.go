package jsonout

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"headrace/wire"
)

func TestJSONNumbersAndTimes(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	for _, c := range []struct {
		entry *wire.Event
		want  []string
	}{
		{&wire.Event{AtMs: at.UnixMilli(), Bytes: math.MaxInt64, Took: math.Inf(-1)},
			[]string{`"atMs":1772600767089,"at":"2026-03-04T05:06:07.089Z"`, `"bytes":9223372036854775807`, `"took":"-Infinity"`}},
		{&wire.Event{Reason: "a < b"}, []string{`"atMs":0,"at":null`, `"bytes":0`, `"reason":"a < b"`}},
	} {
		var b bytes.Buffer
		if err := WriteLine(&b, c.entry); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s\nlacks %s", b.String(), want)
			}
		}
	}
}

// What is written can be read back by who knows the protocol, for every message.
func TestJSONIsTheProtocols(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	messages := wire.File_headrace_proto.Messages()
	for i := range messages.Len() {
		d := messages.Get(i)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		for j := range d.Fields().Len() {
			name, isTime := strings.CutSuffix(d.Fields().Get(j).JSONName(), "Ms")
			if isTime && d.Fields().ByJSONName(name) != nil {
				t.Errorf("%s has both %s and %sMs", d.Name(), name, name)
			}
		}
		for range 20 {
			m, got := kind.New(), kind.New()
			fillMessage(rng, m, 4)
			for _, indent := range []string{"", "  "} {
				var b bytes.Buffer
				if err := write(&b, m.Interface(), indent); err != nil {
					t.Fatal(err)
				}
				// Unknown: the times for people.
				err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b.Bytes(), got.Interface())
				if err != nil || !proto.Equal(m.Interface(), got.Interface()) {
					t.Fatalf("%s: %v\n%s\nis read as\n%v", d.Name(), err, b.String(), got)
				}
			}
		}
	}
}

// fillMessage sets random fields of a message to random values.
func fillMessage(rng *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if rng.IntN(3) == 0 || depth == 0 && f.Message() != nil {
			continue
		}
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			for range rng.IntN(4) {
				value := m.Mutable(f).Map().NewValue()
				fillMessage(rng, value.Message(), depth-1)
				m.Mutable(f).Map().Set(randomValue(rng, f.MapKey()).MapKey(), value)
			}
		case f.IsMap():
			for range rng.IntN(4) {
				m.Mutable(f).Map().Set(randomValue(rng, f.MapKey()).MapKey(), randomValue(rng, f.MapValue()))
			}
		case f.IsList() && f.Message() != nil:
			for range rng.IntN(3) {
				fillMessage(rng, m.Mutable(f).List().AppendMutable().Message(), depth-1)
			}
		case f.IsList():
			for range rng.IntN(3) {
				m.Mutable(f).List().Append(randomValue(rng, f))
			}
		case f.Message() != nil:
			fillMessage(rng, m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, randomValue(rng, f))
		}
	}
}

func randomValue(rng *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	texts := []string{"", "plain", "<a & b>", "日本語 \u2028 \"quoted\"\n\x00"}
	floats := []float64{0, 1.5, -1e300, 1e-7, math.Inf(1), math.Inf(-1)}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rng.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rng.IntN(f.Enum().Values().Len())))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts[rng.IntN(len(texts))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts[rng.IntN(len(texts))]))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(floats[rng.IntN(len(floats))])
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(rng.Uint64()))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rng.Uint64())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(rng.Uint32()))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rng.Uint32())
	}
	panic("a kind of field that the test does not know: " + f.Kind().String())
}
