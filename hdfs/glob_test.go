package hdfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// matches tells whether a pattern of one name matches it.
func matches(pattern, name string) (bool, error) {
	g, err := newGlob(pattern)
	if err != nil {
		return false, err
	}
	if g.names == nil {
		return g.literal == name, nil
	}
	return g.names.have(name)
}

func TestGlob(t *testing.T) {
	for _, c := range []struct{ pattern, fits, not string }{
		{"a", "a", "b aa A"},
		{"*", "a ab .a 日本", ""},
		{"a*", "a ab a.b", "ba"},
		{"?", "a 日", "ab"},
		{"a?c", "abc a.c", "ac abbc"},
		{"part-[0-9]*", "part-0 part-00012", "part- part-r-0"},
		{"[ab]", "a b", "c ab"},
		{"[^ab]", "c ^", "a b"},
		{"[!ab]", "c !", "a b"},
		{"[a^!]", "a ^ !", "b"},
		{"[a-]", "a -", "b"},
		{"[]a]", "] a", "b"},
		{"[^]a]", "b", "] a"},
		{`[\]\-a]`, "] - a", `\ b`},
		{"[日-月]", "日 月", "本"},
		{"{a,bc}", "a bc", "b abc {a,bc}"},
		{"{a,b*}d", "ad bd bxd", "d"},
		{"{a,{b,c}d}", "a bd cd", "b c"},
		{"a{,b}", "a ab", "b"},
		{"a,b}", "a,b}", "a"},
		{`\*`, "*", "a"},
		{`\{a,b\}`, "{a,b}", "a"},
		{"a.b$(c)|+^", "a.b$(c)|+^", "axb"},
		{`日\本*`, "日本 日本x", "日"},
	} {
		for name := range strings.FieldsSeq(c.fits) {
			if ok, err := matches(c.pattern, name); !ok || err != nil {
				t.Errorf("%s does not match %s: %v", c.pattern, name, err)
			}
		}
		for name := range strings.FieldsSeq(c.not) {
			if ok, err := matches(c.pattern, name); ok || err != nil {
				t.Errorf("%s matches %s: %v", c.pattern, name, err)
			}
		}
	}
	for _, pattern := range []string{"[", "[a", "[]", "[^]", "[b-a]", "[a[b]", "{a", "{a,{b}", `\`, `a\`, `[a\`} {
		if _, err := newGlob(pattern); !errors.Is(err, errPattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestExpand has the examples of Hadoop's GlobExpander.
func TestExpand(t *testing.T) {
	for pattern, want := range map[string][]string{
		"/a":                     {"/a"},
		"{a/b}":                  {"a/b"},
		"/}{a/b}":                {"/}a/b"},
		"p{a/b,c/d}s":            {"pa/bs", "pc/ds"},
		"{a/b,c/d,{e,f}}":        {"a/b", "c/d", "{e,f}"},
		"{a/b,c/d}{e,f}":         {"a/b{e,f}", "c/d{e,f}"},
		"{a,b}/{b,{c/d,e/f}}":    {"{a,b}/b", "{a,b}/c/d", "{a,b}/e/f"},
		`{a,b}/{c/\d}`:           {`{a,b}/c/d`},
		`/\{a/b\}`:               {`/\{a/b\}`},
		`/{x\,y/z,w\\*}\*`:       {`/x,y/z\*`, `/w\*\*`},
		"/{day1,day2}/*":         {"/{day1,day2}/*"},
		"/{day1/a,day2}/{b/c,d}": {"/day1/a/b/c", "/day1/a/d", "/day2/b/c", "/day2/d"},
	} {
		if got, err := expand(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"/{a/b", `/{a/b}\`, strings.Repeat("{a/a,b}", 11)} {
		if _, err := expand(pattern); !errors.Is(err, errPattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestExpandTakesLittle: what a pattern would stand for takes no more memory and time before it is known to be too much.
func TestExpandTakesLittle(t *testing.T) {
	for name, pattern := range map[string]string{
		"many of one long path":             "/" + strings.Repeat("A", 10_000) + "{/" + strings.Repeat(",", 10_000) + "}z",
		"as many as may be":                 "/" + strings.Repeat("A", 20_000) + "{/" + strings.Repeat(",", maxPatterns-2) + "}z",
		"many in between":                   strings.Repeat("{a/,b/}", 9) + strings.Repeat("{c/}", 5000),
		"many in between with little to do": strings.Repeat("{c/}", 5000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := expand(pattern)
		if runtime.ReadMemStats(&after); !errors.Is(err, errPattern) || after.TotalAlloc-before.TotalAlloc > 4*maxExpanded {
			t.Errorf("%s: %d bytes were allocated, %v", name, after.TotalAlloc-before.TotalAlloc, err)
		}
	}
}

// TestGlobEnds: a name is not compared for long with a pattern that may be any number of things at each character, but is with one that names many files.
func TestGlobEnds(t *testing.T) {
	name := strings.Repeat("a", 255)
	for _, pattern := range []string{strings.Repeat("{,?}", 2000), strings.Repeat("{*,*}", 1600), strings.Repeat("*a", 4000)} {
		if is, err := matches(pattern, name); is || !errors.Is(err, errPattern) {
			t.Errorf("%.20s... of %d bytes: %v, %v", pattern, len(pattern), is, err)
		}
	}
	var parts []string
	for i := range 500 {
		parts = append(parts, fmt.Sprintf("part-%05d", 7919*i%100_000))
	}
	for _, pattern := range []string{"{" + strings.Join(parts, ",") + "}", "*{" + strings.Join(parts[:100], ",") + "}*", strings.Repeat("*a", 10) + "*"} {
		for _, name := range append(parts[:10:10], name) {
			if _, err := matches(pattern, name); err != nil {
				t.Errorf("%.20s... of %d bytes, %s: %v", pattern, len(pattern), name, err)
			}
		}
	}
}

// hadoop has Hadoop say what it makes of lines, as testdata/Globs.java has them.
func hadoop(t *testing.T, lines []string) (answers []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("no Java in short tests")
	}
	jars, _ := filepath.Glob("../java/cluster/target/hadoop/lib/hadoop-common-[0-9]*.jar")
	java, err := exec.LookPath("java")
	if len(jars) == 0 || err != nil {
		t.Skip("there is no Hadoop to ask; make java gathers it:", err)
	}
	cmd := exec.Command(java, "-cp", filepath.Join(filepath.Dir(jars[0]), "*"), "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", "testdata/Globs.java")
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // for names of files
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	answers = strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(answers) != len(lines) {
		t.Fatalf("%d answers, %v\n%s", len(answers), err, &stderr)
	}
	return answers
}

// some joins up to most pieces.
func some(random *rand.Rand, most int, from []string) string {
	var b strings.Builder
	for range random.IntN(most + 1) {
		b.WriteString(from[random.IntN(len(from))])
	}
	return b.String()
}

// TestGlobIsHadoops asks Hadoop's own GlobPattern about random patterns and names. What
// Hadoop does to \ before a letter, and to what is special inside of [], is left out: it
// lets them through to an expression where they mean something else.
func TestGlobIsHadoops(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := strings.Split("a b c ab - ! ^ ] , . } $ ( + | 日 \\* \\\\ \\{ \\] \\( * * ? [ab] [^a] [!bc] [a-c] [^a-b] [-a] [a-] []a] [a { {a, {b,c} {,a} , } }", " ")
	text := strings.Split("a a b b c d ab - ! ^ ] , . } { * \\ $ ( + | 日", " ")
	var lines []string
	for range 20000 {
		lines = append(lines, "matches\t"+some(random, 5, pieces)+"\t"+some(random, 5, text))
	}
	count := map[string]int{}
	for i, answer := range hadoop(t, lines) {
		field := strings.Split(lines[i], "\t")
		ok, err := matches(field[1], field[2])
		ours := fmt.Sprint(ok)
		if err != nil {
			ours = "error"
		}
		if ours != answer {
			t.Errorf("%q and %q: %s, Hadoop says %s (%v)", field[1], field[2], ours, answer, err)
		}
		count[ours]++
	}
	if count["true"] < 500 || count["false"] < 500 || count["error"] < 500 {
		t.Errorf("%v answers are not worth much", count)
	}
}

// TestExpandIsHadoops asks Hadoop's own GlobExpander what random patterns stand for. It passes a { without a } on, at which GlobPattern fails.
func TestExpandIsHadoops(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := strings.Split("a b 日 / / / { { { } } } , , , {a/b,c} {a,b} \\{ \\} \\, \\/ \\\\ * }{", " ")
	var lines []string
	for range 20000 {
		lines = append(lines, "expand\t/"+some(random, 12, pieces))
	}
	usable := func(patterns string) bool {
		return patterns != "error" && !slices.ContainsFunc(strings.FieldsFunc(patterns, func(c rune) bool { return c == '/' || c == '\t' }), func(name string) bool {
			_, err := newGlob(name)
			return err != nil
		})
	}
	several, bad := 0, 0
	for i, answer := range hadoop(t, lines) {
		pattern := strings.TrimPrefix(lines[i], "expand\t")
		got, err := expand(pattern)
		ours := strings.Join(got, "\t")
		if err != nil {
			ours = "error"
			bad++
		}
		if len(got) > 1 {
			several++
		}
		if ours != answer && (usable(ours) || usable(answer)) {
			t.Errorf("%q: %q, Hadoop says %q (%v)", pattern, ours, answer, err)
		}
	}
	if several < 500 || bad < 500 {
		t.Errorf("%d patterns stand for several, %d are bad: not worth much", several, bad)
	}
}

// TestFindIsHadoops has Hadoop look up random patterns in a tree, as an input format does it that goes below directories. Left out is what is named without *, ?, [ or {:
// Find finds it where it is hidden, too; and .. beside {a/b}, of which Hadoop takes a part away.
func TestFindIsHadoops(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	root := t.TempDir()
	names := []string{"a", "b", "_a", ".b", "x[1]", "{a}", "a,b", "日"}
	for _, one := range names {
		for _, two := range names {
			for _, three := range names[:4] {
				at := filepath.Join(root, one, two+".d", three)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, one, two), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := httptest.NewServer(localTree{})
	defer server.Close()
	c := newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
	pieces := strings.Split("a b ab _a .b x\\[1\\] \\{a\\} a\\,b 日 * * * ? [ab]* [^a]* _* .* {a,b} {a/b,b} {a/*,_a/b,b} {_a,a}/b a.d *.d *d {a,b}.d .d / / / / // . ..", " ")
	var lines []string
	for len(lines) < 1500 {
		p := "/" + some(random, 7, pieces)
		if strings.ContainsAny(strings.NewReplacer(`\[`, "", `\{`, "").Replace(p), "*?{[") && !(strings.Contains(p, "..") && strings.Contains(p, "{a/")) {
			lines = append(lines, "find\t"+root+"\t"+p)
		}
	}
	hits, bad := 0, 0
	for i, answer := range hadoop(t, lines) {
		pattern := strings.Split(lines[i], "\t")[2]
		found, problems := search(t, c, root+pattern)
		for k := range found {
			found[k] = strings.TrimPrefix(found[k], root)
		}
		slices.Sort(found)
		ours := strings.Join(found, "\t")
		if errors.Is(problems[root+pattern], errPattern) {
			ours = "error"
			bad++
		}
		if ours != answer {
			t.Errorf("%q: %q, Hadoop says %q (%v)", pattern, ours, answer, problems)
		}
		if len(found) > 0 {
			hits++
		}
	}
	if hits < 150 {
		t.Errorf("%d patterns of %d mean something, %d are bad: not worth much", hits, len(lines), bad)
	}
}

// localTree answers as a name node that has this machine's files.
type localTree struct{}

func (localTree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := strings.TrimPrefix(r.URL.Path, "/webhdfs/v1")
	info, err := os.Stat(at)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"RemoteException":{"exception":"FileNotFoundException","message":"none"}}`)
		return
	}
	status := func(name string, dir bool) string {
		return fmt.Sprintf(`{"pathSuffix":%q,"permission":"755","type":%q}`, name, map[bool]string{false: "FILE", true: "DIRECTORY"}[dir])
	}
	if r.URL.Query().Get("op") == "GETFILESTATUS" {
		fmt.Fprintf(w, `{"FileStatus":%s}`, status("", info.IsDir()))
		return
	}
	all := []string{status("", false)}
	if info.IsDir() {
		all = nil
		list, _ := os.ReadDir(at)
		for _, e := range list {
			all = append(all, status(e.Name(), e.IsDir()))
		}
	}
	fmt.Fprintf(w, `{"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":[%s]}},"remainingEntries":0}}`, strings.Join(all, ","))
}

// escape returns the pattern that matches just s.
func escape(s string) string {
	return regexp.MustCompile(`[*?\[\]{},\\^]`).ReplaceAllString(s, `\$0`)
}

// FuzzGlob: no pattern is too much, and an escaped name is the pattern of itself alone.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"/a/{b/c,d}/[x-z]*", `\{`, "[^]]", "日?"} {
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if list, err := expand(pattern); err == nil {
			for _, p := range list {
				for part := range strings.SplitSeq(p, "/") {
					newGlob(part)
				}
			}
		}
		escaped := escape(pattern)
		g, err := newGlob(escaped)
		if err != nil || g.names != nil || g.literal != pattern {
			t.Errorf("%q escaped is %q: %+v, %v", pattern, escaped, g, err)
		}
		if list, err := expand(escaped); err != nil || len(list) != 1 || list[0] != escaped {
			t.Errorf("%q escaped is %q and stands for %q, %v", pattern, escaped, list, err)
		}
		if !utf8.ValidString(pattern + name) {
			return
		}
		for glob, want := range map[string]bool{escaped + "*": strings.HasPrefix(name, pattern), "{" + escaped + ",}": name == pattern || name == ""} {
			if got, err := matches(glob, name); got != want || err != nil {
				t.Errorf("%q and %q: %v, %v", glob, name, got, err)
			}
		}
	})
}
