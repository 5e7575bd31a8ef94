package input

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

type named struct {
	Name  string
	Count Scalar
}

func readObjects(r io.Reader, most int) (found []string, err error) {
	for o, err := range Objects[named](r, most, "items") {
		if err != nil {
			return found, err
		}
		found = append(found, fmt.Sprintf("%s %s at %d", o.Value.Name, o.Value.Count, o.line))
	}
	return found, nil
}

func TestObjects(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                    nil,
		`{"name":"a","count":1} {"name":"b"}`: {"a 1 at 1", "b  at 1"},
		"[{\"name\":\"a\"},\n{\"name\":\"b\",\"count\":\"7\"}]\n[]\n{\"name\":\"c\"}": {"a  at 1", "b 7 at 2", "c  at 4"},
		`{"kind":"List","items":[{"name":"a"},{"name":"b"}],"name":"no"}`:             {"a  at 1", "b  at 1"},
		`{"items":[]}`: nil,
		`{"name":"a","x":{"items":[{"name":"no"}]},"count":null}`: {"a  at 1"},
	} {
		got, err := readObjects(strings.NewReader(text), 1<<10)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
		// In pieces, too.
		if got, err := readObjects(iotest.OneByteReader(strings.NewReader(text)), 1<<10); err != nil || len(got) != len(want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestObjectsRefuse(t *testing.T) {
	for text, says := range map[string]string{
		"\n7":              "line 2: want an object or a list of objects",
		"{\"items\":\n{}}": "line 2: want a list in the field items",
		"{\"name\":1}":     `line 1: Name "number": not of the type that is meant to be there`,
		"{\"count\":[]}":   "line 1: an object or list where a number or a text is meant to be",
		"[{}":              "line 1: the file ends in the middle: is it complete?",
		"{\"name\"":        "line 1: the file ends in the middle: is it complete?",
		"{]":               "line 1: no JSON: ",
		`{"name":"` + strings.Repeat("x", 1<<12) + `"}`: "line 1: an object of more than 1024 bytes",
	} {
		_, err := readObjects(strings.NewReader(text), 1<<10)
		var se *SyntaxError
		if !errors.As(err, &se) || !strings.HasPrefix(err.Error(), "trace: "+says) {
			t.Errorf("%.60q: %v; want %s", text, err, says)
		}
	}
	fire := errors.New("the disk is on fire")
	if _, err := readObjects(io.MultiReader(strings.NewReader("[{},"), iotest.ErrReader(fire)), 1<<10); !errors.Is(err, fire) {
		t.Error(err)
	}
}

func FuzzObjects(f *testing.F) {
	f.Add(`{"items":[{"name":"a","count":1}],"x":[1,{"y":null}]}`)
	f.Add("[{}]\n{\"count\":\"1\"}{")
	f.Fuzz(func(t *testing.T, text string) {
		var se *SyntaxError
		if _, err := readObjects(strings.NewReader(text), 1<<10); err != nil && (!errors.As(err, &se) || se.Line < 1 || se.Line > strings.Count(text, "\n")+1) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestScalar(t *testing.T) {
	for s, want := range map[Scalar]int64{"": -7, "12": 12, "-1": -1, "1e3": 1000, "2.0": 2, "9007199254740993": 9007199254740993} {
		if got, err := s.Whole(-7); err != nil || got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []Scalar{"x", "1.5", "1e300", "0x1", "inf"} {
		if got, err := s.Whole(0); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func TestTable(t *testing.T) {
	var got []string
	for row, err := range Table(strings.NewReader("\ufeffName,\"cpu.count\",name\n\na, 1 ,x\r\n\"b\",,y\nc,1\n"), ',', nil) {
		if err != nil {
			got = append(got, err.Error())
			break
		}
		got = append(got, fmt.Sprint(row.Get("NAME"), row.Get("none", "cpu.count"), row.Has("x", "name"), row.Has("x")))
	}
	if want := []string{"a1true false", "btrue false", "trace: line 5: 2 fields, the first line has 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
