package jsonout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Write writes a message with all its fields, indented. The error is w's.
func Write(w io.Writer, m proto.Message) error { return write(w, m, "  ") }

// WriteLine is Write on one line.
func WriteLine(w io.Writer, m proto.Message) error { return write(w, m, "") }

func write(w io.Writer, m proto.Message, indent string) error {
	var raw, b bytes.Buffer
	appendMessage(&raw, m.ProtoReflect())
	b = raw
	if indent != "" {
		b = bytes.Buffer{}
		if err := json.Indent(&b, raw.Bytes(), "", indent); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// appendMessage writes all fields of a message but messages that are not set.
func appendMessage(b *bytes.Buffer, m protoreflect.Message) {
	b.WriteByte('{')
	between := ""
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		b.WriteString(between)
		between = ","
		appendJSON(b, f.JSONName())
		b.WriteByte(':')
		appendField(b, f, m.Get(f))
		if name, ok := strings.CutSuffix(f.JSONName(), "Ms"); ok && !f.IsList() {
			b.WriteByte(',')
			appendJSON(b, name)
			b.WriteByte(':')
			appendTime(b, m.Get(f).Int())
		}
	}
	b.WriteByte('}')
}

func appendField(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case f.IsMap():
		appendMap(b, f, v.Map())
	case f.IsList():
		b.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			appendValue(b, f, v.List().Get(i))
		}
		b.WriteByte(']')
	default:
		appendValue(b, f, v)
	}
}

// appendMap writes a map in the order of its keys.
func appendMap(b *bytes.Buffer, f protoreflect.FieldDescriptor, m protoreflect.Map) {
	values := map[string]protoreflect.Value{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()] = v
		return true
	})
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteByte(',')
		}
		appendJSON(b, k)
		b.WriteByte(':')
		appendValue(b, f.MapValue(), values[k])
	}
	b.WriteByte('}')
}

func appendValue(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		appendMessage(b, x)
	case protoreflect.EnumNumber:
		if e := f.Enum().Values().ByNumber(x); e != nil {
			appendJSON(b, string(e.Name()))
		} else {
			b.WriteString(strconv.Itoa(int(x)))
		}
	case []byte:
		appendJSON(b, base64.StdEncoding.EncodeToString(x))
	case float64:
		appendFloat(b, x)
	default: // bool, string, and numbers that JSON has
		appendJSON(b, x)
	}
}

// appendFloat writes what JSON has no numbers for as the protocol does.
func appendFloat(b *bytes.Buffer, x float64) {
	switch {
	case math.IsNaN(x):
		b.WriteString(`"NaN"`)
	case math.IsInf(x, 1):
		b.WriteString(`"Infinity"`)
	case math.IsInf(x, -1):
		b.WriteString(`"-Infinity"`)
	default:
		appendJSON(b, x)
	}
}

// appendTime writes a point in time.
func appendTime(b *bytes.Buffer, ms int64) {
	if ms == 0 {
		b.WriteString("null")
		return
	}
	appendJSON(b, time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// appendJSON writes what encoding/json can write; it is asked for nothing else.
func appendJSON(b *bytes.Buffer, v any) {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("write %T as JSON: %v", v, err)) // not a value of a message
	}
	b.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
}
