package criu

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCandidates(t *testing.T) {
	cases := []struct {
		name string
		env  map[string]string
		root bool
		want []string
	}{
		{"root", nil, true, []string{"/opt/headrace/criu/bin/criu", "/usr/bin/criu", "/usr/sbin/criu", "/sbin/criu"}},
		{"user", nil, false, []string{"/home/u/.local/share/headrace/criu/bin/criu", "/opt/headrace/criu/bin/criu", "/usr/bin/criu", "/usr/sbin/criu", "/sbin/criu"}},
		{"user with XDG", map[string]string{"XDG_DATA_HOME": "/d"}, false, []string{"/d/headrace/criu/bin/criu", "/opt/headrace/criu/bin/criu", "/usr/bin/criu", "/usr/sbin/criu", "/sbin/criu"}},
		{"prefix", map[string]string{"HEADRACE_CRIU_PREFIX": "/p"}, true, []string{"/p/bin/criu", "/usr/bin/criu", "/usr/sbin/criu", "/sbin/criu"}},
		{"named", map[string]string{"HEADRACE_CRIU": "/x/criu", "HEADRACE_CRIU_PREFIX": "/p"}, true, []string{"/x/criu"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := search{getenv: func(k string) string { return tc.env[k] }, home: "/home/u", root: tc.root, path: []string{"", "relative", "/usr/bin"}}
			if got := s.candidates(); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestFindTakesTheFirstThatWillDo(t *testing.T) {
	dir := t.TempDir()
	place := func(name, script string) string {
		p := filepath.Join(dir, name, "criu")
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(p)
	}
	old := place("old", "echo Version: 3.17.1")
	good := place("good", "echo Version: 4.2; echo GitID: v4.2")
	newer := place("newer", "echo Version: 5.0.3")
	broken := place("broken", "echo no such library >&2; exit 127")
	strange := place("strange", "echo hello")

	cases := []struct {
		name string
		env  string
		path []string
		want string
		err  error
		say  string
	}{
		{"nothing", "", nil, "", ErrNotFound, "scripts/get-criu"},
		{"first good one", "", []string{old, broken, good, newer}, good, nil, ""},
		{"only old", "", []string{old}, "", ErrTooOld, "is 3.17.1, 4.2 is needed"},
		{"only broken", "", []string{broken}, "", ErrBroken, "no such library"},
		{"no CRIU at all", "", []string{strange}, "", ErrBroken, `"hello"`},
		{"both", "", []string{broken, old}, "", ErrTooOld, "no such library"},
		{"named", filepath.Join(newer, "criu"), []string{good}, newer, nil, ""},
		{"named, old", filepath.Join(old, "criu"), []string{good}, "", ErrTooOld, ""},
		{"named, absent", "/nowhere/criu", []string{good}, "", ErrBroken, "/nowhere/criu"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{"HEADRACE_CRIU": tc.env, "HEADRACE_CRIU_PREFIX": filepath.Join(dir, "none")}
			s := search{getenv: func(k string) string { return env[k] }, root: true, path: tc.path}
			version := func(p string) (Version, error) {
				if !strings.HasPrefix(p, dir) && tc.env == "" {
					return Version{}, errors.New("not part of this test")
				}
				return runVersion(t.Context(), p)
			}
			if tc.name == "nothing" {
				for _, p := range []string{"/usr/sbin/criu", "/sbin/criu"} {
					if _, err := os.Stat(p); err == nil {
						t.Skipf("there is %s", p)
					}
				}
			}
			c, err := s.find(version)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Fatalf("err = %v, want %v", err, tc.err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tc.say) {
					t.Errorf("%q does not say %q", err, tc.say)
				}
				return
			}
			if c.Path != filepath.Join(tc.want, "criu") {
				t.Errorf("found %s", c.Path)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	order := []Version{{3, 17, 1}, {4, 1, 1}, {4, 2, 0}, {4, 2, 1}, {4, 10, 0}, {5, 0, 0}}
	for i, v := range order {
		for j, w := range order {
			if v.AtLeast(w) != (i >= j) {
				t.Errorf("%v.AtLeast(%v) = %v", v, w, v.AtLeast(w))
			}
		}
		back, err := ParseVersion("Version: " + v.String() + "\n")
		if err != nil || back != v {
			t.Errorf("%v comes back as %v, %v", v, back, err)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"Version: 4.2.1\nGitID: v4.2.1\n", "Version: 4.2", "Version: x", "", "Version: 99999999999999999999.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVersion(s)
		if err == nil && !strings.Contains(s, "Version: ") {
			t.Errorf("%q is version %v", s, v)
		}
		if v.Major < 0 || v.Minor < 0 || v.Patch < 0 {
			t.Errorf("%q is version %v", s, v)
		}
	})
}
