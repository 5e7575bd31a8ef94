package split

import (
	"bytes"
	"testing"

	"headrace/wire"
)

func TestSplit(t *testing.T) {
	cases := []struct {
		text string
		want Flag
	}{
		{"none", Flag{}},
		{"lines", Flag{Rule: wire.Split_SPLIT_LINES}},
		{"lines:;", Flag{Rule: wire.Split_SPLIT_LINES, Delimiter: []byte(";")}},
		{"lines::", Flag{Rule: wire.Split_SPLIT_LINES, Delimiter: []byte(":")}},
		{`lines:\r\n`, Flag{Rule: wire.Split_SPLIT_LINES, Delimiter: []byte("\r\n")}},
		{`lines:\x00\xFf\\`, Flag{Rule: wire.Split_SPLIT_LINES, Delimiter: []byte("\x00\xff\\")}},
		{"fixed:1", Flag{Rule: wire.Split_SPLIT_FIXED, Record: 1}},
		{"fixed:4K", Flag{Rule: wire.Split_SPLIT_FIXED, Record: 4096}},
		{"raw", Flag{Rule: wire.Split_SPLIT_RAW}},
		{"files", Flag{Rule: wire.Split_SPLIT_FILES}},
	}
	for _, c := range cases {
		var got, again Flag
		if err := got.Set(c.text); err != nil || got.Rule != c.want.Rule || !bytes.Equal(got.Delimiter, c.want.Delimiter) || got.Record != c.want.Record {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
		if err := again.Set(got.String()); err != nil || again.String() != got.String() || again.Record != got.Record || !bytes.Equal(again.Delimiter, got.Delimiter) {
			t.Errorf("%s shows itself as %s, which is %+v, %v", c.text, got.String(), again, err)
		}
	}
	for _, text := range []string{"", "Lines", "line", "lines:", "fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:x", "raw:", "files:x", "none:1", `lines:\`, `lines:\q`, `lines:\x`, `lines:\x1`, `lines:\xgg`} {
		if got := (Flag{}); got.Set(text) == nil {
			t.Errorf("%q was accepted as %+v", text, got)
		}
	}
}

func FuzzDelimiter(f *testing.F) {
	f.Add([]byte("\x00\n\\x"), `\x`)
	f.Add([]byte("ü\xff\u2028"), `\0`)
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		if got, err := parseBytes(escapeBytes(b)); len(b) > 0 && (err != nil || !bytes.Equal(got, b)) {
			t.Errorf("%q is written %s, which is read as %q, %v", b, escapeBytes(b), got, err)
		}
		if got, err := parseBytes(text); err == nil && len(got) == 0 {
			t.Errorf("%q is read as nothing", text)
		}
	})
}
