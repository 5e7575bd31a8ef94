package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// writeMessage writes a message of the protocol as the daemon would send it,
// with all fields and indented.
func writeMessage(w io.Writer, m proto.Message) error { return writeProto(w, m, "  ") }

// writeMessageLine writes it on one line.
func writeMessageLine(w io.Writer, m proto.Message) error { return writeProto(w, m, "") }

func writeProto(w io.Writer, m proto.Message, indent string) error {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	// The spacing of protojson differs from build to build on purpose.
	var b bytes.Buffer
	if indent == "" {
		err = json.Compact(&b, raw)
	} else {
		err = json.Indent(&b, raw, "", indent)
	}
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// writeJSON writes what is not a message of the protocol.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
