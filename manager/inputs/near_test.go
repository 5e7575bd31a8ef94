package inputs

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace/wire"
)

// TestNear: blocks are read where half of each or more will be read, as far as that was said and makes sense.
func TestNear(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/d/a": {blocks: blocksOf(1, 4, "a.example", "b.example")}, "/d/b": {blocks: blocksOf(5, 1, "b.example")}}}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	newNode(t, in, "a").settle()
	newNode(t, in, "b").settle()
	paths := []string{"hdfs://c/d/b", "hdfs://c/d/a", "hdfs://c/d/*", "hdfs://other/d/a"}
	warm := func(job string, readers ...*wire.InputReader) error {
		_, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: job, Paths: paths, Readers: readers})
		return err
	}
	places := func(job string) string {
		t.Helper()
		res, err := in.Places(t.Context(), &wire.PlacesRequest{User: "u", Job: job, Paths: paths[1:2]})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(res.Files[0].Hosts)
	}
	for job, c := range map[string]struct {
		readers []*wire.InputReader
		want    string
	}{
		"all-but-the-last": {[]*wire.InputReader{{Path: 1, Length: 200, Host: "b.example"}, {Path: 1, Start: 200, Length: 149, Host: "b.example"}}, "[b.example b.example b.example a.example]"},
		"half-of-the-last": {[]*wire.InputReader{{Path: 1, Start: 50, Length: 300, Host: "a.example"}}, "[a.example a.example a.example a.example]"},
	} {
		if err := warm(job, c.readers...); err != nil {
			t.Fatal(err)
		}
		if got := places(job); got != c.want {
			t.Errorf("%s: %s, want %s", job, got, c.want)
		}
		if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "u", Jobs: []string{job}}); err != nil {
			t.Fatal(err)
		}
	}
	// None of these says where a block is read.
	if err := warm("odd", &wire.InputReader{Path: 2, Length: 400, Host: "a.example"}, &wire.InputReader{Path: 3, Length: 400, Host: "a.example"}, &wire.InputReader{Path: 1, Start: 400, Length: 1 << 62, Host: "a.example"},
		&wire.InputReader{Path: 1, Start: 1 << 62, Length: 1 << 62, Host: "a.example"}, &wire.InputReader{Path: 1, Length: 400, Host: "nobody"}, &wire.InputReader{Path: 1, Length: 400}); err != nil {
		t.Fatal(err)
	}
	if got := places("odd"); !strings.Contains(got, "a.example") || !strings.Contains(got, "b.example") {
		t.Errorf("of odd readers: %s", got)
	}
	for what, readers := range map[string][]*wire.InputReader{
		"a path that is not there": {{Path: 4, Length: 1}}, "before the file": {{Start: -1}}, "less than nothing": {{Length: -1}}, "too many": make([]*wire.InputReader, maxReaders+1),
	} {
		if err := warm("no", readers...); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	// However they overlap, it takes no longer.
	var all []*wire.InputReader
	for range maxReaders {
		all = append(all, &wire.InputReader{Path: 1, Length: 400, Host: "b.example"})
	}
	if err := warm("all", all...); err != nil {
		t.Error(err)
	}
}
