package linux

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseMounts(t *testing.T) {
	got := ParseMounts(`22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 propagate_from:3 - ext4 /dev/vda rw,discard
40 27 8:17 /sub\040dir /a\011b\012c\134d\043e rw - fuse.sshfs me@host:/x\040y rw,user_id=0
41 27 259:1048575 / /nonbreaking` + "\u00a0" + `blank rw - xfs /dev/nvme0n1p1 rw
42 27 0:50 / /nothing rw - tmpfs  rw
43 27 0:51 / /short rw - tmpfs
44 27 0:52 / /dash rw tmpfs none rw
45 27 0:x / /number rw - tmpfs none rw
-1 27 0:53 / /id rw - tmpfs none rw
46 27 99999999999:0 / /large rw - tmpfs none rw

47 27 0:54 / /odd\9\08\777\1 rw - tmpfs none rw
48 27 0:55 / /bare rw - tmpfs none`)
	want := []Mount{
		{22, unix.Mkdev(0, 21), "/", "/proc", "proc", "proc", "rw"},
		{27, unix.Mkdev(254, 0), "/", "/", "ext4", "/dev/vda", "rw,discard"},
		{40, unix.Mkdev(8, 17), "/sub dir", "/a\tb\nc\\d#e", "fuse.sshfs", "me@host:/x y", "rw,user_id=0"},
		{41, unix.Mkdev(259, 1048575), "/", "/nonbreaking\u00a0blank", "xfs", "/dev/nvme0n1p1", "rw"},
		{42, unix.Mkdev(0, 50), "/", "/nothing", "tmpfs", "", "rw"},
		{47, unix.Mkdev(0, 54), "/", `/odd\9\08\777\1`, "tmpfs", "none", "rw"},
		{48, unix.Mkdev(0, 55), "/", "/bare", "tmpfs", "none", ""},
	}
	if len(got) != len(want) {
		t.Errorf("%d mounts, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestOwnMounts(t *testing.T) {
	table := func() string {
		t.Helper()
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var got []Mount
	var err error
	text := table()
	for before := ""; before != text; { // others mount and unmount meanwhile
		before = text
		got, err = ProcFS("").Mounts("self")
		text = table()
	}
	if want := strings.Count(text, "\n"); len(got) != want || err != nil {
		t.Errorf("%d mounts of %d were understood: %v", len(got), want, err)
	}
}

func TestMountedIn(t *testing.T) {
	root := tree(t, map[string]string{"7/mountinfo": `1 1 0:1 / /a rw - tmpfs none rw
2 1 0:2 / /a/b\040c rw - tmpfs none rw
3 1 0:3 / /ab rw - tmpfs none rw
4 1 0:4 / /a/d/e rw - tmpfs none rw
`})
	got, err := ProcFS(root).MountedIn("7", "/a")
	if want := []string{"/a/d/e", "/a/b c"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := ProcFS(root).MountedIn("8", "/a"); err == nil {
		t.Errorf("mounts of no process: %q", got)
	}
}

func TestHasCgroups(t *testing.T) {
	v1, v2 := Mount{Type: "cgroup", Options: "rw,cpu,cpuacct"}, Mount{Type: "cgroup2", Options: "rw,memory"}
	for _, c := range []struct {
		m          Mount
		controller string
		want       bool
	}{{v1, "cpu", true}, {v1, "cpuacct", true}, {v1, "cpu,cpuacct", true}, {v1, "acct", false}, {v1, "", false}, {v2, "", true}, {v2, "memory", false},
		{Mount{Type: "tmpfs", Options: "cpu"}, "cpu", false}} {
		if got := c.m.HasCgroups(c.controller); got != c.want {
			t.Errorf("%+v with %q: %v", c.m, c.controller, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	for escaped, want := range map[string]string{`/a\040b`: "/a b", `/plain`: "/plain", `/x\134y`: `/x\y`, `/end\04`: `/end\04`} {
		if got := Unescape(escaped); got != want {
			t.Errorf("%s: %q, want %q", escaped, got, want)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n")
	f.Add(`40 27 8:17 /sub\040dir /a\011b\012c\134d\043e rw - fuse x rw`)
	f.Add("1 2 3:4 / /\\0 - - - -")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		all := ParseMounts(text)
		if len(all) > lines {
			t.Fatalf("%d mounts in %d lines", len(all), lines)
		}
		for _, m := range all {
			// Written as the kernel writes it, it is read back.
			line := fmt.Sprintf("%d 2 %d:%d %s %s rw - %s %s %s\n", m.ID, unix.Major(m.Dev), unix.Minor(m.Dev),
				escape(m.Root), escape(m.Point), escape(m.Type), escape(m.Source), escape(m.Options))
			if back, ok := parseMount(line); !ok || back != m {
				t.Errorf("%q: %+v became %+v", line, m, back)
			}
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`).Replace(s)
}

// TestMounted: a file system has one name until it is unmounted, and then another one; of ext4 it is the same for all mounts of it.
func TestMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root nothing can be mounted")
	}
	dir := t.TempDir()
	image, first, second := filepath.Join(dir, "image"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Skipf("%s %v: %v, %s", name, args, err, out)
		}
	}
	for _, at := range []string{first, second} {
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 8<<20); err != nil {
		t.Fatal(err)
	}
	name := func(at string) string {
		t.Helper()
		d, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		return Mounted(int(d.Fd()))
	}
	unmount := func(at string) {
		t.Helper()
		err := unix.EBUSY // as long as others of this machine look at whatever is mounted
		for end := time.Now().Add(2 * time.Minute); err == unix.EBUSY && time.Now().Before(end); runtime.Gosched() {
			err, _ = unix.Unmount(at, 0).(unix.Errno)
		}
		if err != 0 {
			t.Fatal(err)
		}
	}
	run("mount", "-t", "tmpfs", "tmpfs", first)
	before := name(first)
	if again := name(first); again != before {
		t.Errorf("%q, then %q", before, again)
	}
	unmount(first)
	run("mount", "-t", "tmpfs", "tmpfs", first)
	if again := name(first); again == before {
		t.Errorf("%q, mounted twice", again)
	}
	unmount(first)

	run("mkfs.ext4", "-q", image)
	run("mount", "-o", "loop", image, first)
	run("mount", "--bind", first, second)
	before = name(first)
	if other := name(second); !strings.HasPrefix(before, "ext4 ") || other != before {
		t.Errorf("%q, and seen from elsewhere %q", before, other)
	}
	unmount(first)
	if left := name(second); left != before {
		t.Errorf("%q, and where it still is %q", before, left)
	}
	unmount(second)
	run("mount", "-o", "loop", image, first)
	if again := name(first); again == before {
		t.Errorf("%q, mounted twice", again)
	}
}
