package reopen

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	img "headrace/internal/criu/image"
	"headrace/internal/linux"
)

// A dump is images made for a test: process 1000 is init, 1001 a process of the
// task with a thread 1002.
type dump struct {
	t     *testing.T
	dir   string
	files []img.Message
	fds   []img.Message // descriptors of 1001
	creds map[int]img.Message
}

const testInit = 1000

func newDump(t *testing.T) *dump {
	d := &dump{t: t, dir: filepath.Join(t.TempDir(), "000001"), creds: map[int]img.Message{}}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.creds[testInit] = identityOf(0, 0)
	return d
}

// identityOf returns a creds_entry.
func identityOf(uid, gid uint32, groups ...uint64) img.Message {
	var m img.Message
	for field := fieldNumber(img.CredsUID); field <= img.CredsFSGID; field += 2 {
		m = m.SetUint(field, uint64(uid)).SetUint(field+1, uint64(gid))
	}
	for _, g := range groups {
		m = append(m, img.Message(nil).SetUint(img.CredsGroups, g)...)
	}
	return m
}

// without returns a message without the fields of a number.
func without(m img.Message, num fieldNumber) img.Message {
	return slices.DeleteFunc(slices.Clone(m), func(f img.Field) bool { return f.Num == num })
}

// file adds an entry of files.img and, for a number above 0, a descriptor.
func (d *dump) file(kind, id uint64, field fieldNumber, m img.Message, fd uint64) {
	d.files = append(d.files, img.Message(nil).SetUint(img.FileType, kind).SetUint(img.FileID, id).SetMessage(field, m))
	if fd > 0 {
		d.fds = append(d.fds, img.Message(nil).SetUint(img.FdinfoID, id).SetUint(img.FdinfoType, kind).SetUint(img.FdinfoFD, fd))
	}
}

func (d *dump) path(id uint64, name string, flags uint64, fd uint64) {
	d.file(img.TypeReg, id, img.FileReg, img.Message(nil).SetUint(img.RegID, id).SetBytes(img.RegName, []byte(name)).
		SetUint(img.RegFlags, flags).SetUint(img.RegMode, unix.S_IFREG|0o600), fd)
}

func (d *dump) write(name string, entries ...img.Message) {
	d.t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 0x54564319)
	b = binary.LittleEndian.AppendUint32(b, 0x56303138)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Encode())))
		b = append(b, e.Encode()...)
	}
	if err := os.WriteFile(filepath.Join(d.dir, name), b, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// finish writes the images, the last step.
func (d *dump) finish() *img.Dir {
	d.t.Helper()
	process := func(pid uint64) img.Message {
		return img.Message(nil).SetUint(img.PstreePID, pid)
	}
	d.write(filesImage, d.files...)
	d.write("pstree.img", process(testInit), process(1001).SetUint(img.PstreeThread, 1002))
	d.write("ids-1001.img", img.Message(nil).SetUint(img.IDsFiles, 3))
	d.write("fdinfo-3.img", d.fds...)
	for tid, creds := range d.creds {
		thread := img.Message(nil).SetMessage(img.ThreadCreds, creds)
		d.write(fmt.Sprintf("core-%d.img", tid), img.Message(nil).SetMessage(img.CoreThread, thread))
	}
	dir, err := img.NewDir(d.dir+".shown", d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	return dir
}

var alice = linux.Credentials{UID: 1001, GID: 1001, Groups: []uint32{1001, 44}}

func TestWhatIsNotForOthers(t *testing.T) {
	name := func(s string) img.Message { return img.Message(nil).SetBytes(img.UnixName, []byte(s)) }
	for _, c := range []struct {
		what string
		add  func(d *dump)
		want string // empty: nothing against it
	}{
		{"nothing special", func(d *dump) { d.path(1, "/f", 0, 3) }, ""},
		{"a unix socket without a name", func(d *dump) { d.file(img.TypeUnix, 2, img.FileUnix, name(""), 4) }, ""},
		{"an abstract unix socket", func(d *dump) { d.file(img.TypeUnix, 2, img.FileUnix, name("\x00a"), 4) }, ""},
		{"an abstract unix socket that listens", func(d *dump) {
			d.file(img.TypeUnix, 2, img.FileUnix, name("\x00a").SetUint(img.UnixState, img.StateListen), 4)
		}, "a unix socket that listens (@a)"},
		{"a socket under way in a socket", func(d *dump) { d.file(img.TypeUnix, 2, img.FileUnix, name(""), 0) }, "on its way through a unix socket"},
		{"a netlink socket", func(d *dump) { d.file(img.TypeNetlink, 2, 15, nil, 4) }, "a netlink socket"},
		{"a unix socket with a path", func(d *dump) { d.file(img.TypeUnix, 2, img.FileUnix, name("/tmp/s\x00"), 4) }, "a unix socket with a path (/tmp/s)"},
		{"a TCP socket", func(d *dump) {
			d.file(img.TypeInet, 2, img.FileInet, img.Message(nil).SetUint(img.InetType, 1), 4)
		}, ""},
		{"a raw socket", func(d *dump) {
			d.file(img.TypeInet, 2, img.FileInet, img.Message(nil).SetUint(img.InetType, sockRaw), 4)
		}, "a raw socket"},
		{"a packet socket", func(d *dump) { d.file(img.TypePacket, 2, 6, nil, 4) }, "a packet socket"},
		{"a tun device", func(d *dump) { d.file(img.TypeTun, 2, 11, nil, 4) }, "a tun device"},
		{"a kind not known yet", func(d *dump) { d.file(77, 2, 50, nil, 4) }, "a descriptor of kind 77"},
		{"a watch by handle", func(d *dump) {
			d.file(img.TypeInotify, 2, img.FileInotify, img.Message(nil).SetMessage(img.InotifyWatch, img.Message(nil).SetMessage(img.WatchHandle, nil)), 4)
		}, ""},
		{"a watch by path", func(d *dump) {
			h := img.Message(nil).SetBytes(img.HandlePath, []byte("/root"))
			d.file(img.TypeInotify, 2, img.FileInotify, img.Message(nil).SetMessage(img.InotifyWatch, img.Message(nil).SetMessage(img.WatchHandle, h)), 4)
		}, "an inotify watch that is kept by its path (/root)"},
		{"a file under way in a socket", func(d *dump) { d.path(1, "/f", 0, 0) }, "on its way through a unix socket"},
		{"a file with another name", func(d *dump) {
			d.path(1, "/f", 0, 3)
			d.path(9, "/link_remap.9", 0, 0)
			d.write("remap-fpath.img", img.Message(nil).SetUint(img.RemapOrigID, 1).SetUint(img.RemapID, 9).SetUint(img.RemapType, img.RemapLinked))
		}, "/f, which the task had open: it was deleted, and the file is still there under another name"},
		{"a pseudo-terminal", func(d *dump) {
			d.path(1, "/dev/pts/3", 2, 0)
			d.file(img.TypeTTY, 2, img.FileTTY, img.Message(nil).SetUint(img.TTYRegID, 1), 4)
			d.write("tty-info.img", img.Message(nil).SetUint(img.TTYInfoEntryType, img.TTYPseudo))
		}, ""},
		{"a console", func(d *dump) {
			d.path(1, "/dev/tty1", 2, 0)
			d.file(img.TypeTTY, 2, img.FileTTY, img.Message(nil).SetUint(img.TTYRegID, 1), 4)
			d.write("tty-info.img", img.Message(nil).SetUint(img.TTYInfoEntryType, 3))
		}, "a terminal"},
		{"root's rights", func(d *dump) { d.creds[1001] = identityOf(0, 1001) }, "process 1001 of the task runs as user 0"},
		{"another group", func(d *dump) { d.creds[1001] = identityOf(1001, 7) }, "runs as group 7"},
		{"one of the user's groups", func(d *dump) { d.creds[1001] = identityOf(1001, 44, 44, 1001) }, ""},
		{"a thread in a foreign group", func(d *dump) { d.creds[1002] = identityOf(1001, 1001, 0) }, "is in group 0"},
		{"capabilities", func(d *dump) { d.creds[1001] = identityOf(1001, 1001).SetUint(img.CredsCapEff, 1<<13) }, "capabilities"},
		{"an identity that is not whole", func(d *dump) { d.creds[1001] = without(identityOf(1001, 1001), img.CredsFSGID) }, "no complete identity"},
		{"a process that nobody knows", func(d *dump) { d.creds[4321] = identityOf(0, 0) }, "runs as user 0"},
		{"an old form", func(d *dump) { d.write("creds-1001.img") }, "too old"},
	} {
		d := newDump(t)
		d.creds[1001], d.creds[1002] = identityOf(alice.UID, alice.GID), identityOf(alice.UID, alice.GID, 44)
		c.add(d)
		d.finish()
		err := Check(d.dir, alice, testInit)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if err := Check(d.dir, linux.Credentials{}, testInit); err != nil {
			t.Errorf("%s, for root's own task: %v", c.what, err)
		}
	}
}

func TestPathsOfTheTaskBelowProc(t *testing.T) {
	tr := &tree{threads: map[int]int{1001: 1001, 1002: 1001}}
	for name, want := range map[string]bool{
		"/proc/1001/status": true, "/proc/1001/task/1002/stat": true, "/proc/1001/fd": true, "/proc/1001": true,
		"/proc/1/status": false, "/proc/meminfo": false, "/proc/sys/kernel/core_pattern": false, "/procs/1001/x": false,
		"/proc/1001/root/etc/shadow": false, "/proc/1001/cwd": false, "/proc/1001/fd/7": false, "/proc/1001/exe": false,
		"/proc/1001/task/1002/root/x": false, "/proc/1001/map_files/0-1": false, "/proc/self/status": false,
	} {
		if got := tr.ofTask(&path{name: name, remap: -1}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !tr.ofTask(&path{name: "/proc/77/status", remap: img.RemapProcfs}) {
		t.Error("the path of a process that has ended is not the task's")
	}
}

func TestPathsOfTerminals(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		want     bool
	}{
		{"/dev/pts/7", true, true}, {"/dev/pts/7", false, false}, {"/dev/pts/ptmx", true, false},
		{"/dev/pts/../../etc/shadow", true, false}, {"/dev/pts/-1", true, false}, {"/dev/tty", true, true}, {"/dev/tty", false, false},
		{"/dev/ptmx", true, true}, {"/dev/tty/../../etc/shadow", true, false},
	} {
		if got := (&path{name: c.name, terminal: c.terminal}).ofTerminal(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
