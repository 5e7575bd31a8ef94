package hdfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
		`{a,b}/{c/\d}`:           {`{a,b}/c/\d`},
		`/\{a/b\}`:               {`/\{a/b\}`},
		`/{x\,y/z,w}`:            {`/x\,y/z`, "/w"},
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

// TestGlobIsHadoops asks Hadoop's own GlobPattern about random patterns and names. What
// Hadoop does to \ before a letter, and to what is special inside of [], is left out: it
// lets them through to an expression where they mean something else.
func TestGlobIsHadoops(t *testing.T) {
	if testing.Short() {
		t.Skip("no Java in short tests")
	}
	jars, _ := filepath.Glob("../java/cluster/target/hadoop/lib/hadoop-common-[0-9]*.jar")
	java, err := exec.LookPath("java")
	if len(jars) == 0 || err != nil {
		t.Skip("there is no Hadoop to ask; make java gathers it:", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	pieces := strings.Split("a b c ab - ! ^ ] , . } $ ( + | 日 \\* \\\\ \\{ \\] \\( * * ? [ab] [^a] [!bc] [a-c] [^a-b] [-a] [a-] []a] [a { {a, {b,c} {,a} , } }", " ")
	text := strings.Split("a a b b c d ab - ! ^ ] , . } { * \\ $ ( + | 日", " ")
	some := func(from []string) string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	var lines []string
	for range 20000 {
		lines = append(lines, some(pieces)+"\t"+some(text))
	}
	cmd := exec.Command(java, "-cp", filepath.Join(filepath.Dir(jars[0]), "*"), "-Dfile.encoding=UTF-8", "testdata/Globs.java")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(answers) != len(lines) {
		t.Fatalf("%d answers, %v\n%s", len(answers), err, &stderr)
	}
	count := map[string]int{}
	for i, line := range lines {
		pattern, name, _ := strings.Cut(line, "\t")
		ok, err := matches(pattern, name)
		ours := fmt.Sprint(ok)
		if err != nil {
			ours = "error"
		}
		if ours != answers[i] {
			t.Errorf("%q and %q: %s, Hadoop says %s (%v)", pattern, name, ours, answers[i], err)
		}
		count[ours]++
	}
	if count["true"] < 500 || count["false"] < 500 || count["error"] < 500 {
		t.Errorf("%v answers are not worth much", count)
	}
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
