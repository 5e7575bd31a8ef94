package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFind looks for files in a real tree, whose directories come in several answers.
func TestFind(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	made := []string{
		"day1/hour1/a", "day1/hour1/b", "day1/hour1/_SUCCESS", "day1/hour1/.a.crc", "day1/hour2/a",
		"day2/_temporary/0/a", "day2/hour1/a", "day2/x[1]", "_day3/a", "z{1,2}",
	}
	for i := range 10 {
		made = append(made, fmt.Sprintf("many/part-%05d", i))
	}
	for _, name := range made {
		p := path.Join(dir, name)
		if err := errors.Join(c.MkdirAll(ctx, path.Dir(p), 0o755), create(ctx, c, p, "")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.MkdirAll(ctx, dir+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	var day1, many, shown []string
	for _, name := range made {
		day1 = appendIf(day1, name, strings.HasPrefix(name, "day1/") && !strings.ContainsAny(path.Base(name)[:1], "_."))
		many = appendIf(many, name, strings.HasPrefix(name, "many/"))
		shown = appendIf(shown, name, !strings.Contains("/"+name, "/_") && !strings.Contains(name, "/."))
	}
	slices.Sort(shown)
	none := []string(nil)
	for _, q := range []struct {
		paths, want []string
		problem     error // of the first of them
	}{
		{[]string{""}, shown, nil},
		{[]string{"day1"}, day1, nil},
		{[]string{"day1/hour1/a"}, []string{"day1/hour1/a"}, nil},
		{[]string{"many"}, many, nil},
		{[]string{"many/part-0000[3-5]"}, many[3:6], nil},
		{[]string{"empty"}, none, nil},
		{[]string{"empty/*"}, none, ErrNoMatch},
		{[]string{"none"}, none, fs.ErrNotExist},
		{[]string{"day1/hour1/a/b"}, none, fs.ErrNotExist},
		{[]string{"none/*"}, none, ErrNoMatch},
		{[]string{"day1/*/a"}, []string{"day1/hour1/a", "day1/hour2/a"}, nil},
		{[]string{"day1/*/a/*"}, none, ErrNoMatch},
		{[]string{"*/hour1"}, append(day1[:2:2], "day2/hour1/a"), nil},
		{[]string{"day?/hour[12]/{a,c}"}, []string{"day1/hour1/a", "day1/hour2/a", "day2/hour1/a"}, nil},
		{[]string{"{day2/hour1,day1/hour2}"}, []string{"day2/hour1/a", "day1/hour2/a"}, nil},
		{[]string{"{day2/hour1,none/x}"}, []string{"day2/hour1/a"}, nil},
		{[]string{"day1/hour1/*"}, day1[:2], nil},
		{[]string{"day1/hour1/_*"}, none, ErrNoMatch},
		{[]string{"_day*/a"}, []string{"_day3/a"}, nil},
		{[]string{"_day3"}, []string{"_day3/a"}, nil},
		{[]string{"day1/hour1/_SUCCESS"}, []string{"day1/hour1/_SUCCESS"}, nil},
		{[]string{"*/hour1/_SUCCESS"}, none, ErrNoMatch},
		{[]string{"day2/x[1]"}, none, ErrNoMatch},
		{[]string{escape("day2/x[1]")}, []string{"day2/x[1]"}, nil},
		{[]string{escape("z{1,2}")}, []string{"z{1,2}"}, nil},
		{[]string{"*/x[[1]*"}, none, errPattern},
		{[]string{"day1/[", "day1/hour2"}, []string{"day1/hour2/a"}, errPattern},
		{[]string{"day1", "day1/hour1/a", "day1/*", "day1"}, day1, nil},
		{[]string{"day1/hour2/a", "day1"}, []string{"day1/hour2/a", "day1/hour1/a", "day1/hour1/b"}, nil},
		{[]string{"day1/hour1", "day1/hour1/_SUCCESS", "day1/hour1/_SUCCESS"}, []string{"day1/hour1/a", "day1/hour1/b", "day1/hour1/_SUCCESS"}, nil},
	} {
		var paths []string
		for _, p := range q.paths {
			paths = append(paths, dir+"/"+p)
		}
		files, problems := search(t, c, paths...)
		for i, f := range files {
			files[i] = strings.TrimPrefix(f, dir+"/")
		}
		if !reflect.DeepEqual(files, q.want) {
			t.Errorf("%q: %q, want %q", q.paths, files, q.want)
		}
		if err := problems[paths[0]]; !errors.Is(err, q.problem) || (q.problem == nil) != (len(problems) == 0) {
			t.Errorf("%q: problems %v, want %v", q.paths, problems, q.problem)
		}
	}
	if _, problems := search(t, c, "relative"); !errors.Is(problems["relative"], errPath) {
		t.Errorf("a relative path: %v", problems)
	}
	err := c.Find(ctx, []string{dir + "/none", dir}, Visitor{})
	var p *Problem
	if !errors.As(err, &p) || p.Path != dir+"/none" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first problem ends it: %v", err)
	}
	stop, n := errors.New("stop"), 0
	if err := c.Find(ctx, []string{dir}, Visitor{File: func(string, FileInfo) error { n++; return stop }}); !errors.Is(err, stop) || n != 1 {
		t.Errorf("a visitor that stops: %v after %d", err, n)
	}
}

func appendIf(list []string, s string, also bool) []string {
	if also {
		return append(list, s)
	}
	return list
}

// endless is a name node whose directories have more in them for ever, down and along.
type endless struct{ stuck bool }

func (e endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("op") == "GETFILESTATUS" {
		fmt.Fprint(w, `{"FileStatus":{"permission":"755","type":"DIRECTORY"}}`)
		return
	}
	next := q.Get("startafter") + "a"
	if e.stuck {
		next = "a"
	}
	fmt.Fprintf(w, `{"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":[{"pathSuffix":%q,"permission":"644","type":"FILE"}]}},"remainingEntries":1}}`, next)
}

// TestFindEnds: the end of ctx ends a search that nothing else would.
func TestFindEnds(t *testing.T) {
	server := httptest.NewServer(endless{})
	defer server.Close()
	c := newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
	for _, path := range []string{"/", "/*"} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := c.Find(ctx, []string{path}, Visitor{
			File: func(string, FileInfo) error {
				if n++; n == 5 {
					cancel()
				}
				return nil
			},
			Problem: func(p *Problem) error { t.Errorf("%s: %v", path, p); return nil },
		})
		cancel()
		if !errors.Is(err, context.Canceled) || n != 5 {
			t.Errorf("%s: %v after %d files", path, err, n)
		}
	}
	stuck := httptest.NewServer(endless{stuck: true})
	defer stuck.Close()
	c = newClient(t, Options{NameNodes: []string{stuck.URL}, User: "u"})
	if list, err := c.ReadDir(t.Context(), "/"); err == nil || !strings.Contains(err.Error(), "go on") {
		t.Errorf("a list that goes in circles: %d, %v", len(list), err)
	}
}

// TestFindTakesNoLongPaths: nobody is asked about a path that is longer than one can be, and it is not taken apart.
func TestFindTakesNoLongPaths(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked: %.100s", r.URL) }))
	defer server.Close()
	c := newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
	for _, path := range []string{"/" + strings.Repeat("日", 8000), "/" + strings.Repeat("A", MaxPath) + "{/,,}", "/" + strings.Repeat("*a", MaxPath)} {
		var problems []*Problem
		err := c.Find(t.Context(), []string{path}, Visitor{Problem: func(p *Problem) error { problems = append(problems, p); return nil }})
		if err != nil || len(problems) != 1 || !errors.Is(problems[0], errLong) || len(problems[0].Error()) > 500 || !utf8.ValidString(problems[0].Path) {
			t.Errorf("%.20s...: %d problems, %v", path, len(problems), err)
		}
	}
}

// TestNames: a name node that lists what is no name is not believed.
func TestNames(t *testing.T) {
	for _, name := range []string{"..", ".", "a/b", "../../x"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":[{"pathSuffix":%q,"permission":"644","type":"FILE"}]}},"remainingEntries":0}}`, name)
		}))
		c := newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
		if list, err := c.ReadDir(t.Context(), "/"); err == nil {
			t.Errorf("%q is taken: %v", name, list)
		}
		server.Close()
	}
}
