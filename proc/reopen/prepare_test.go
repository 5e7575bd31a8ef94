package reopen

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	img "headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// A place has files that belong to the user that the tests run as.
func place(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// me is the user that the tests run as; root's own tasks are handled as root.
func identify(t *testing.T, path string) linux.FileIdentity {
	t.Helper()
	id, err := identifyPath(path)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func me() linux.Credentials {
	return linux.Credentials{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
}

// nameOf reads what a file is called in the images that CRIU is shown.
func nameOf(t *testing.T, d *img.Dir, id uint64) (string, uint64) {
	t.Helper()
	tr, err := scan(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	return tr.byID[id].name, tr.byID[id].flags
}

func TestPreparedImagesLeadToTheFilesThatWereChecked(t *testing.T) {
	dir := place(t, "f", "other")
	f := filepath.Join(dir, "f")
	dump := newDump(t)
	dump.path(1, f, unix.O_RDWR|unix.O_NOFOLLOW, 3)
	shown := dump.finish()
	rec := &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, f)}}
	opened, err := Prepare(shown, Options{User: me(), InitPID: testInit, Record: rec, SameBoot: true})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	link, flags := nameOf(t, shown, 1)
	if !strings.HasPrefix(link, "/proc/") || flags != unix.O_RDWR {
		t.Fatalf("CRIU is to open %s with flags %#o", link, flags)
	}
	// From now on the path may lead anywhere.
	if err := os.Rename(filepath.Join(dir, "other"), f); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(link, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, _ := io.ReadAll(r); string(b) != "f" {
		t.Errorf("the link leads to a file that holds %q", b)
	}
	if got := opened.Explain("can't open " + link[1:] + " today"); got != "can't open "+f+" today" {
		t.Errorf("explained as %q", got)
	}
	if stored, err := scan(dump.dir); err != nil || stored.byID[1].name != f {
		t.Errorf("the stored image was changed: %v", err)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(f string) error
		want   string
	}{
		{"removed", os.Remove, "not there any more"},
		{"a link in its place", func(f string) error { return replace(f, func() error { return os.Symlink("elsewhere", f) }) }, "is a symbolic link now"},
		{"a directory in its place", func(f string) error { return replace(f, func() error { return os.Mkdir(f, 0o700) }) }, "is a directory now"},
		{"a link above it", func(f string) error {
			top := filepath.Dir(f)
			if err := os.Rename(top, top+".moved"); err != nil {
				return err
			}
			return os.Symlink(top+".moved", top)
		}, "there is a symbolic link in its path now"},
		{"another file", func(f string) error {
			if err := os.WriteFile(f+".new", []byte("f"), 0o600); err != nil {
				return err
			}
			return os.Rename(f+".new", f)
		}, "another file is there now"},
	} {
		dir := filepath.Join(place(t), "sub")
		f := filepath.Join(dir, "f")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte("f"), 0o600); err != nil {
			t.Fatal(err)
		}
		dump := newDump(t)
		dump.path(1, f, 0, 3)
		shown := dump.finish()
		rec := &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, f)}}
		if err := c.change(f); err != nil {
			t.Fatal(err)
		}
		before := testkit.Descriptors(t)
		_, err := Prepare(shown, Options{User: me(), InitPID: testInit, Record: rec, SameBoot: true})
		if err == nil || !strings.Contains(err.Error(), f+", which the task had open: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if after := testkit.Descriptors(t); after != before {
			t.Errorf("%s: %d descriptors were left open", c.what, after-before)
		}
		os.RemoveAll(dir + ".moved")
	}
}

// TestRehearsalWithoutWhatIsMadeAgain: what somebody removes while the tree is dumped is a
// reason to refuse the dump, unless it is made again before a restore.
func TestRehearsalWithoutWhatIsMadeAgain(t *testing.T) {
	f := filepath.Join(place(t), "f")
	if err := os.WriteFile(f, []byte("f"), 0o600); err != nil {
		t.Fatal(err)
	}
	dump := newDump(t)
	dump.path(1, f, 0, 3)
	shown := dump.finish()
	o := Options{User: me(), InitPID: testInit, Record: &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, f)}}, SameBoot: true}
	if err := Rehearse(shown.Path(), o); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f); err != nil {
		t.Fatal(err)
	}
	if err := Rehearse(shown.Path(), o); err == nil || !strings.Contains(err.Error(), "not there any more") {
		t.Errorf("removed: %v", err)
	}
	o.MadeAgain = []string{f}
	if err := Rehearse(shown.Path(), o); err != nil {
		t.Errorf("removed, and made again before a restore: %v", err)
	}
	if _, err := Prepare(shown, o); err == nil || !strings.Contains(err.Error(), "not there any more") {
		t.Errorf("not made again: %v", err)
	}
}

func replace(f string, by func() error) error {
	if err := os.Remove(f); err != nil {
		return err
	}
	return by()
}

// For another user, every path is opened with that user's rights.
func TestFilesAreOpenedAsTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("acting as another user needs root")
	}
	closed, open := place(t, "f"), place(t, "f")
	for d := open; d != "/"; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode()&0o001 == 0 {
			if err := os.Chmod(d, st.Mode()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	try := func(path string, o Options) error {
		dump := newDump(t)
		dump.path(1, path, unix.O_RDONLY, 3)
		o.User, o.InitPID = alice, testInit
		if o.Record == nil {
			o.Record = &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, path)}}
		}
		opened, err := Prepare(dump.finish(), o)
		opened.Close()
		return err
	}
	unknown := func(path string) *Record {
		id := identify(t, path)
		id.Handle, id.Birth = nil, 0
		return &Record{Files: map[uint64]linux.FileIdentity{1: id}}
	}
	secret := filepath.Join(open, "f") // 0600 root's
	for _, c := range []struct {
		what string
		path string
		o    Options
		want string
	}{
		{"in a directory that is closed to the user", filepath.Join(closed, "f"), Options{SameBoot: true}, "user 1001 may not reach it"},
		{"in a directory of the task's own", filepath.Join(closed, "f"), Options{SameBoot: true, Own: []string{closed}}, ""},
		{"a file that the task had, though the user may not open it", secret, Options{SameBoot: true}, ""},
		{"the same, known by its number only", secret, Options{SameBoot: true, Record: unknown(secret)}, "user 1001 may not open it"},
		{"the same, of another machine", secret, Options{Moved: true}, "user 1001 may not open it"},
		{"the same, made again", secret, Options{SameBoot: true, MadeAgain: []string{secret}}, "user 1001 may not open it"},
		{"a setting of the kernel's", "/proc/sys/kernel/hostname", Options{SameBoot: true}, ""},
		{"what the kernel tells nobody but root", "/proc/kallsyms", Options{SameBoot: true}, ErrMoreToRoot.Error()},
		{"a file of another process", "/proc/1/environ", Options{SameBoot: true}, ErrMoreToRoot.Error()},
	} {
		err := try(c.path, c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

func TestCheckpointsWithoutARecord(t *testing.T) {
	dir := place(t, "f")
	dump := newDump(t)
	dump.path(1, filepath.Join(dir, "f"), 0, 3)
	shown := dump.finish()
	if _, err := Prepare(shown, Options{User: alice, InitPID: testInit}); err == nil || !strings.Contains(err.Error(), "older Headrace") {
		t.Errorf("another user's: %v", err)
	}
	opened, err := Prepare(shown, Options{InitPID: testInit})
	if err != nil {
		t.Errorf("root's own: %v", err)
	}
	if name, _ := nameOf(t, shown, 1); name != filepath.Join(dir, "f") {
		t.Errorf("it was changed to %s", name)
	}
	if err := opened.Verify(); err != nil {
		t.Error(err)
	}
	opened.Close()
}

// Deleted files are made where only root can interfere.
func TestDeletedFilesAreDiverted(t *testing.T) {
	top := place(t)
	dump := newDump(t)
	dump.path(1, "/home/alice/gone", 0, 3)
	dump.path(2, "/dev/shm/gone", 0, 4)
	dump.path(3, "/home/alice/link", unix.O_PATH|unix.O_NOFOLLOW, 5)
	remap := func(id uint64) img.Message {
		return img.Message(nil).SetUint(img.RemapOrigID, id).SetUint(img.RemapID, id).SetUint(img.RemapType, img.RemapGhost)
	}
	dump.write("remap-fpath.img", remap(1), remap(2), remap(3))
	dump.write("ghost-file-1.img")
	dump.write("ghost-file-2.img")
	dump.write("ghost-file-3.img")
	shown := dump.finish()
	rec := &Record{Files: map[uint64]linux.FileIdentity{1: {FS: unix.EXT4_SUPER_MAGIC}, 2: {FS: unix.TMPFS_MAGIC}, 3: {FS: unix.EXT4_SUPER_MAGIC}}}
	disk, memory := filepath.Join(top, "deleted"), filepath.Join(top, "memory")
	opened, err := Prepare(shown, Options{User: me(), InitPID: testInit, Record: rec, SameBoot: true, Disk: func() (string, error) { return disk, nil },
		Memory: func() (string, error) { return memory, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint64]string{1: disk + "/1/gone", 2: memory + "/2/gone", 3: disk + "/3/link"} {
		name, flags := nameOf(t, shown, id)
		if follows := flags&unix.O_NOFOLLOW == 0; follows != (id != 3) {
			t.Errorf("%d is opened with the flags %#x: a symbolic link is not to be followed", id, flags)
		}
		if name != want {
			t.Errorf("%d is made at %s, want %s", id, name, want)
		}
		for d := filepath.Dir(name); d != top; d = filepath.Dir(d) {
			if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", d, st, err)
			}
		}
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	for _, d := range []string{disk, memory} {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is left", d)
		}
	}
}

func TestCheckStatus(t *testing.T) {
	status := func(uid, gid, groups, caps string) string {
		return "Name:\tx\nState:\tT (stopped)\nUid:\t" + uid + "\nGid:\t" + gid + "\nGroups:\t" + groups +
			"\nCapInh:\t0000000000000800\nCapPrm:\t" + caps + "\nCapEff:\t" + caps + "\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n"
	}
	const none = "0000000000000000"
	for _, c := range []struct{ status, want string }{
		{status("1001\t1001\t1001\t1001", "1001\t1001\t1001\t1001", "44 1001", none), ""},
		{status("1001\t1001\t1001\t1001", "44\t44\t44\t44", "", none), ""},
		{status("1001\t0\t1001\t1001", "1001\t1001\t1001\t1001", "", none), "has Uid 0"},
		{status("1001\t1001\t1001\t1001", "1001\t1001\t1001\t7", "", none), "has Gid 7"},
		{status("1001\t1001\t1001\t1001", "1001\t1001\t1001\t1001", "0", none), "has Groups 0"},
		{status("1001\t1001\t1001\t1001", "1001\t1001\t1001\t1001", "", "0000000000002000"), "has capabilities"},
		{"Name:\tx\nState:\tT (stopped)\n", "does not show its rights"},
		{"Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\n", ""},
	} {
		err := checkStatus(c.status, alice)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.status, err, c.want)
		}
	}
}
