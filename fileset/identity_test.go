package fileset

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestChanged(t *testing.T) {
	was := Identity{Dev: 1, Ino: 2, Size: 10, Mtime: 5}
	for _, c := range []struct {
		now  Identity
		want bool
	}{
		{was, false}, {Identity{1, 2, 11, 6}, false}, {Identity{1, 2, 9, 5}, true},
		{Identity{1, 2, 10, 6}, true}, {Identity{1, 3, 10, 5}, true}, {Identity{2, 2, 10, 5}, true},
	} {
		if got := was.Changed(c.now); (got != "") != c.want {
			t.Errorf("%v: %q", c.now, got)
		}
	}
}

// TestMountedAnew: a file system without a block device has another number when it is mounted again.
func TestMountedAnew(t *testing.T) {
	nfs, other, disk := unix.Mkdev(0, 51), unix.Mkdev(0, 60), unix.Mkdev(8, 1)
	for _, c := range []struct {
		was, now uint64
		same     bool
	}{{nfs, nfs, true}, {nfs, other, true}, {nfs, disk, false}, {disk, nfs, false}, {disk, unix.Mkdev(8, 2), false}, {0, disk, true}} {
		now := Identity{Dev: c.now, Ino: 2, Size: 10, Mtime: 5}
		if why := (Identity{Dev: c.was, Ino: 2, Size: 10, Mtime: 5}).Here(now).Changed(now); (why == "") != c.same {
			t.Errorf("%x, then %x: %q", c.was, c.now, why)
		}
		if why := (Identity{Dev: c.was, Ino: 3, Size: 10, Mtime: 5}).Here(now).Changed(now); why == "" {
			t.Errorf("%x, then %x: another file is taken for it", c.was, c.now)
		}
	}
}

// TestCheck: a file that has grown is what it was, one that was written anew is not.
func TestCheck(t *testing.T) {
	old := bytes.Repeat([]byte("0123456789"), 1000)
	for name, c := range map[string]struct {
		now  []byte
		want bool
	}{
		"the same": {old, false}, "grown": {append(bytes.Clone(old), "more"...), false},
		"written anew, longer": {bytes.Repeat([]byte("abcdefghij"), 2000), true},
		"shorter":              {old[:9000], true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			was, err := WasNow(f)
			if err != nil {
				t.Fatal(err)
			}
			if was.End == 0 {
				t.Skip("this file system does not tell what it has in memory")
			}
			check := Check{Was: was}
			if len(c.now) != len(old) {
				if err := os.WriteFile(path, c.now, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if why, err := check.Changed(f); err != nil || (why != "") != c.want {
					t.Errorf("%q, %v", why, err)
				}
			}
		})
	}
}

// TestLearn: of a file whose end was not in memory growth counts as a change, until the end has been read.
func TestLearn(t *testing.T) {
	old := bytes.Repeat([]byte("0123456789"), 1000)
	for name, c := range map[string]struct {
		before, after func(f *os.File) error
		want          string
	}{
		"grown before": {before: func(f *os.File) error { _, err := f.WriteAt([]byte("more"), 10_000); return err }, want: "grew"},
		"grown after":  {after: func(f *os.File) error { _, err := f.WriteAt([]byte("more"), 10_000); return err }},
		"written anew": {after: func(f *os.File) error {
			_, err := f.WriteAt(bytes.Repeat([]byte("abcdefghij"), 2000), 0)
			return err
		}, want: "was written anew"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write(old); err != nil {
				t.Fatal(err)
			}
			id, err := Identify(f)
			if err != nil {
				t.Fatal(err)
			}
			check := Check{Was: Was{Identity: id}}
			for _, do := range []func(f *os.File) error{c.before, check.Learn, c.after} {
				if do == nil {
					continue
				}
				if err := do(f); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if why, err := check.Changed(f); err != nil || !strings.HasPrefix(why, c.want) || c.want == "" && why != "" {
					t.Errorf("%q, %v; want %q", why, err, c.want)
				}
			}
		})
	}
}
