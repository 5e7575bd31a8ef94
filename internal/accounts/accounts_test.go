package accounts

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\n" +
		"# a comment\n+nis\nbroken:x:y:1::/:\n" +
		"local:x:1000:1000:A Local,,,:/home/local:/bin/sh\n"
	group = "root:x:0:\nlocal:x:1000:\nwheel:x:10:root,local\nusers:x:100:remote\n"
	nss   = "# who\npasswd: files [!UNAVAIL=return] sss # and no others\ngroup:\tfiles sss\nhosts: files dns\n"
)

// directory is a getent: a script, with the questions that it was asked in a file.
const directory = `#!/bin/sh
echo "$1 $2" >>"$(dirname "$0")/asked"
case "$1 $2" in
"passwd remote"|"passwd 70001") echo "remote:*:70001:70000:R:/home/remote:/bin/sh" ;;
"passwd two words@dom"|"passwd 70002") echo "two words@dom:*:70002:70000::/:" ;;
"passwd imposter"|"passwd 70003") echo "root:*:70003:70000::/:" ;;
"group staff"|"group 70010") echo "staff:*:70010:remote,local" ;;
"initgroups remote") echo "remote                70010 70011 70000" ;;
"initgroups local") echo "local                 70010 10" ;;
"initgroups two words@dom") echo "two words@dom 70010" ;;
*) exit 2 ;;
esac
`

// machine makes a database of files and a script for getent; empty: there is none.
func machine(t *testing.T, nsswitch, script string) *Database {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "group": group, "nsswitch.conf": nsswitch, "getent": script} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := New(dir, filepath.Join(dir, "getent"))
	d.patience, d.glance = patience, patience
	return d
}

// patience is how long getent may take on a machine that may be busy.
const patience = 5 * time.Minute

// asked returns how often the script was asked a question; "": anything.
func asked(t *testing.T, d *Database, question string) (n int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(d.program), "asked"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if question == "" || line == question+"\n" {
			n++
		}
	}
	return n
}

func TestLookUps(t *testing.T) {
	d := machine(t, nss, directory)
	remote, local, spaced := Account{"remote", 70001, 70000}, Account{"local", 1000, 1000}, Account{"two words@dom", 70002, 70000}
	for _, c := range []struct {
		text string
		want Account
	}{
		{"remote", remote}, {"70001", remote}, {"local", local}, {"1000", local}, {"root", Account{Name: "root"}}, {"0", Account{Name: "root"}}, {spaced.Name, spaced},
	} {
		if got, err := d.Find(c.text); got != c.want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"nobody-at-all", "70099", "broken", "+nis", "", "4294967295", "99999999999999"} {
		if got, err := d.Find(text); !errors.Is(err, ErrUnknown) || got != (Account{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if gid, err := d.Group("staff"); gid != 70010 || err != nil {
		t.Errorf("staff: %d, %v", gid, err)
	}
	for gid, want := range map[uint32]string{10: "wheel", 70010: "staff"} {
		if names, err := d.GroupNames(Account{Name: "other", UID: 5, GID: gid}); !slices.Equal(names, []string{want}) || err != nil {
			t.Errorf("%d: %s, %v", gid, names, err)
		}
	}
	for who, want := range map[Account][]uint32{
		remote: {70000, 100, 70010, 70011}, local: {1000, 10, 70010}, {Name: "root"}: {0, 10}, spaced: {70000, 70010}, {"other", 5, 6}: {6},
	} {
		if got, err := d.GroupsOf(who); !slices.Equal(got, want) || err != nil {
			t.Errorf("groups of %s: %v, %v, want %v", who.Name, got, err, want)
		}
	}
	if d.Shown(70001) != "remote" || d.Shown(70099) != "70099" {
		t.Error(d.Shown(70001), d.Shown(70099))
	}
	if n := asked(t, d, "initgroups root"); n != 0 {
		t.Error("root waits for the directory")
	}
}

// TestOddNames: what getent could take for an option or a number, or what is no text, does not reach it.
// TestSubordinates: the numbers that a user was given in /etc/subuid count as the user.
func TestSubordinates(t *testing.T) {
	d := machine(t, nss, directory)
	text := "# given\nlocal:100000:65536\nroot:300000:10\n1234:400000:1\nremote:500000:65536\nlocal:999:2\nbroken:x:1\nlocal:600000:0\n:\n"
	if err := os.WriteFile(d.subuid.path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]uint32{
		99999: 99999, 100000: 1000, 165535: 1000, 165536: 165536, // the edges of a range
		300007: 300000, // root is not held up for it
		400000: 1234,   // a number
		500009: 500000, // nobody of this machine
		999:    1000, 600000: 600000,
		1000: 1000, 0: 0, 70001: 70001, // accounts
	} {
		if got, is := d.PayerOf(uid); got != want || is != (got != uid || uid == 300000) {
			t.Errorf("%d counts as %d, %v; want %d", uid, got, is, want)
		}
	}
	if got := asked(t, d, ""); got != 0 {
		t.Errorf("a directory service was asked %d times", got)
	}
}

func TestOddNames(t *testing.T) {
	d := machine(t, nss, directory)
	for _, name := range []string{"", "-s", "--help", "+a", "a:b", "a/b", "a,b", "a\nb", "a\x00b", " a", "a ", "a\x7f", "a\xff", "\u202ea", "12345", strings.Repeat("x", 300)} {
		if _, err := d.User(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := d.Group(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := d.GroupsOf(Account{name, 70001, 5}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if n := asked(t, d, ""); n != 1 { // that groups of 12345 were asked for is fine: there no number is meant
		t.Errorf("asked %d times", n)
	}
}

// TestImposter: a name of a local user is nobody else's.
func TestImposter(t *testing.T) {
	d := machine(t, nss, directory)
	if a, err := d.UserOf(70003); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("%+v, %v", a, err)
	}
	if got := d.Shown(70003); got != "70003" {
		t.Error(got)
	}
}

func TestFilesAlone(t *testing.T) {
	for name, nsswitch := range map[string]string{"no file": "", "files": "passwd: files\ngroup: files\n", "others": "hosts: dns\n"} {
		d := machine(t, nsswitch, directory)
		if _, err := d.User("remote"); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := d.GroupsOf(Account{"local", 1000, 1000}); !slices.Equal(got, []uint32{1000, 10}) || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if asked(t, d, "") != 0 || d.Problem() != nil || len(d.Services()) != 0 {
			t.Errorf("%s: asked, %v, %v", name, d.Problem(), d.Services())
		}
	}
}

// TestMissing: without getent there are local files, and Problem says what is not known.
func TestMissing(t *testing.T) {
	d := machine(t, nss+"initgroups: files [SUCCESS=continue NOTFOUND=return] ldap\n", "")
	if _, err := d.User("remote"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if got, err := d.GroupsOf(Account{"local", 1000, 1000}); !slices.Equal(got, []uint32{1000, 10}) || err != nil {
		t.Error(got, err)
	}
	if err := d.Problem(); err == nil || !strings.Contains(err.Error(), "of ldap and sss are not known") || !strings.Contains(err.Error(), "getent") {
		t.Error(err)
	}
	if err := machine(t, nss, directory).Problem(); err != nil {
		t.Error(err)
	}
}

// TestInPath: without a path getent is the one in PATH.
func TestInPath(t *testing.T) {
	d := machine(t, nss, directory)
	dir := filepath.Dir(d.program)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	d = New(dir, "")
	d.patience = patience
	if a, err := d.User("remote"); a.UID != 70001 || err != nil {
		t.Error(a, err)
	}
}

// TestRemembered: an answer counts for its time, also that there is none, and is asked for once by
// all who ask at a time.
func TestRemembered(t *testing.T) {
	d := machine(t, nss, directory)
	now := time.Now()
	d.now = func() time.Time { return now }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a, err := d.User("remote"); a.UID != 70001 || err != nil {
				t.Error(a, err)
			}
			if _, err := d.User("nobody"); !errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	times := func(remote, nobody int) {
		t.Helper()
		d.User("remote")
		d.User("nobody")
		if r, n := asked(t, d, "passwd remote"), asked(t, d, "passwd nobody"); r != remote || n != nobody {
			t.Errorf("asked %d and %d times, want %d and %d", r, n, remote, nobody)
		}
	}
	times(1, 1)
	now = now.Add(unknownTime)
	times(1, 2)
	now = now.Add(knownTime)
	times(2, 3)
}

// TestMemoryFirst: what is remembered counts for its time, whatever there is to ask by then.
func TestMemoryFirst(t *testing.T) {
	d := machine(t, nss, directory)
	now := time.Now()
	d.now = func() time.Time { return now }
	look := func() (Account, []uint32, error) {
		a, err := d.User("remote")
		groups, gerr := d.GroupsOf(Account{"local", 1000, 1000})
		return a, groups, errors.Join(err, gerr)
	}
	was, groups, err := look()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.nsswitch.path, d.program} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if a, g, err := look(); a != was || !slices.Equal(g, groups) || err != nil {
		t.Errorf("%v, %v, %v; before it was %v, %v", a, g, err, was, groups)
	}
	now = now.Add(knownTime)
	if a, g, err := look(); !errors.Is(err, ErrUnknown) || !slices.Equal(g, []uint32{1000, 10}) {
		t.Errorf("later, when files are all there is: %v, %v, %v", a, g, err)
	}
}

// TestFilesThatChange: a local file is not read again as long as it is the same, and counts at once when it is not.
func TestFilesThatChange(t *testing.T) {
	d := machine(t, nss, directory)
	write := func(text string, in func(path string, b []byte, mode os.FileMode) error) {
		t.Helper()
		if err := in(d.passwd.path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name string, uid uint32) {
		t.Helper()
		if a, err := d.User(name); a.UID != uid || err != nil {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	for i := range 100 { // many within one step of the file's time
		write(fmt.Sprintf("one:x:%d:5::/:\n", 1000+i), os.WriteFile)
		want("one", uint32(1000+i))
	}
	replace := func(path string, b []byte, mode os.FileMode) error {
		return errors.Join(os.WriteFile(path+"+", b, mode), os.Rename(path+"+", path))
	}
	write("one:x:2000:5::/:\n", replace)
	d.passwd.settled = 0
	want("one", 2000)
	last := d.passwd.last.Load()
	want("one", 2000)
	if last == nil || d.passwd.last.Load() != last {
		t.Error("a file that is the same was read again")
	}
	write("one:x:3000:5::/:\n", replace)
	want("one", 3000)
	if err := os.Remove(d.passwd.path); err != nil {
		t.Fatal(err)
	}
	if a, err := d.User("one"); !errors.Is(err, ErrUnknown) {
		t.Errorf("without the file: %v, %v", a, err)
	}
}

// TestBounded: what is remembered does not grow with what is asked.
func TestBounded(t *testing.T) {
	d := machine(t, nss, directory)
	for _, all := range []map[question]*answer{d.answers, d.others} {
		for i := range mostAnswers + 50 {
			all[question{"passwd", fmt.Sprint("u", i)}] = &answer{}
		}
	}
	if _, err := d.User("remote"); err != nil {
		t.Error(err)
	}
	if len(d.answers) > mostAnswers || len(d.others) > mostAnswers {
		t.Error(len(d.answers), len(d.others))
	}
	known := len(d.answers)
	if _, err := d.User("nobody-at-all"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if len(d.answers) != known || len(d.others) > mostAnswers {
		t.Errorf("%d of %d that are known are left, and %d others", len(d.answers), known, len(d.others))
	}
}

// TestMadeUpNames: names that anybody may make up, of whom the directory takes long to say that it has none, hold up neither users
// who are known nor the groups of local ones, nor whom the kernel tells of.
func TestMadeUpNames(t *testing.T) {
	d := machine(t, nss, strings.Replace(directory, "*) exit 2", `"passwd made"*) cd "$(dirname "$0")" && echo >began && exec cat hold ;;`+"\n*) exit 2", 1))
	pipe := func(name string) *os.File {
		t.Helper()
		path := filepath.Join(filepath.Dir(d.program), name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	began, hold := pipe("began"), pipe("hold")
	now := time.Now()
	d.now = func() time.Time { return now }
	if _, err := d.User("remote"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(staleTime) // they are asked again
	var all sync.WaitGroup
	defer all.Wait()
	defer func() {
		for _, f := range []*os.File{began, hold} {
			if err := errors.Join(os.Remove(f.Name()), f.Close()); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range 4 * mostAtOnce {
		all.Go(func() {
			if _, err := d.User(fmt.Sprint("made", i)); !errors.Is(err, ErrSilent) {
				t.Error(err)
			}
		})
	}
	if _, err := io.ReadFull(began, make([]byte, mostStrange)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if a, err := d.User("remote"); a.UID != 70001 || err != nil {
		t.Errorf("who was known: %v, %v", a, err)
	}
	if a, err := d.UserOf(70002); a.Name != "two words@dom" || err != nil {
		t.Errorf("by number: %v, %v", a, err)
	}
	if a, err := d.User("two words@dom"); a.UID != 70002 || err != nil {
		t.Errorf("found by number, then by name: %v, %v", a, err)
	}
	if got, err := d.GroupsOf(Account{"local", 1000, 1000}); !slices.Equal(got, []uint32{1000, 10, 70010}) || err != nil {
		t.Errorf("groups of a local user: %v, %v", got, err)
	}
	if took := time.Since(start); took > d.patience/2 {
		t.Errorf("they have waited for %v", took)
	}
}

const hangs = "#!/bin/sh\necho \"$1 $2\" >>\"$(dirname \"$0\")/asked\"\nexec sleep 30\n"

// idle waits until nothing is being asked.
func idle(d *Database) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range []map[question]*answer{d.answers, d.others} {
		for _, a := range slices.Collect(maps.Values(of)) {
			if asking := a.asking; asking != nil {
				d.mu.Unlock()
				<-asking
				d.mu.Lock()
			}
		}
	}
}

// TestHangs: a directory that does not answer costs who asks a bounded time, once in a while;
// local users and root do not wait, and what was known counts for longer.
func TestHangs(t *testing.T) {
	d := machine(t, nss, directory)
	now := time.Now()
	d.now = func() time.Time { return now }
	known := func(name string) {
		t.Helper()
		if _, err := d.User(name); err != nil {
			t.Fatal(err)
		}
	}
	known("two words@dom")
	now = now.Add(staleTime - knownTime)
	known("remote")
	now = now.Add(knownTime)
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(d.program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(hangs)
	d.patience = time.Second
	var all sync.WaitGroup
	for i := range 2 * mostAtOnce {
		all.Go(func() {
			if _, err := d.User(fmt.Sprint("u", i)); !errors.Is(err, ErrSilent) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := d.GroupsOf(Account{"local", 1000, 1000}); !errors.Is(err, ErrSilent) {
		t.Errorf("groups that are not all known: %v", err)
	}
	if _, err := d.User("two words@dom"); !errors.Is(err, ErrSilent) {
		t.Errorf("after an hour: %v", err)
	}
	idle(d)
	// From here on nobody gets an answer, and whoever waits for one waits for an hour.
	d.patience, d.glance = time.Hour, time.Hour
	for range mostAtOnce {
		d.slots <- struct{}{}
	}
	asks := asked(t, d, "")
	if _, err := d.User("u0"); !errors.Is(err, ErrSilent) {
		t.Errorf("asked again at once: %v", err)
	}
	if a, err := d.User("remote"); a.UID != 70001 || err != nil { // others have just waited in vain
		t.Errorf("what was known: %v, %v", a, err)
	}
	if a, err := d.User("local"); a.UID != 1000 || err != nil {
		t.Error(a, err)
	}
	if _, err := d.GroupsOf(Account{"root", 0, 0}); err != nil {
		t.Error(err)
	}
	if got := d.Shown(70005); got != "70005" { // others were not answered
		t.Error(got)
	}
	if asked(t, d, "") != asks {
		t.Error("somebody was asked")
	}
	write(directory)
	for range mostAtOnce {
		<-d.slots
	}
	idle(d)
	if n := asked(t, d, "") - asks; n != 2 {
		t.Errorf("%d of two questions were asked that nobody waited for", n)
	}
}

// TestRubbish: what is not an answer is an error, not an account, nor that there is none.
func TestRubbish(t *testing.T) {
	for _, script := range []string{
		"echo rubbish", "echo remote:x:70001", "echo remote:x:-1:5::/:", "echo remote:x:4294967295:5::/:", "printf 'a:x:1:2::/:\\nb:x:1:2::/:\\n'",
		"exit 1", "exit 3", "kill -9 $$", "head -c 3000000 /dev/zero | tr '\\0' x", "true", "echo '-a:x:7:7::/:'",
	} {
		d := machine(t, nss, "#!/bin/sh\n"+script+"\n")
		if a, err := d.User("remote"); !errors.Is(err, ErrSilent) || a != (Account{}) {
			t.Errorf("%s: %+v, %v", script, a, err)
		}
		if g, err := d.GroupsOf(Account{"local", 1000, 1000}); !errors.Is(err, ErrSilent) || g != nil {
			t.Errorf("%s: %v, %v", script, g, err)
		}
	}
	d := machine(t, nss, "#!/bin/sh\necho remote:x:70001:5::/:\n")
	if a, err := d.UserOf(70002); !errors.Is(err, ErrSilent) {
		t.Errorf("another's entry: %v, %v", a, err)
	}
	d = machine(t, nss, "#!/bin/sh\nprintf 'staff:x:70010:'; head -c 3000000 /dev/zero | tr '\\0' x\n")
	if gid, err := d.Group("staff"); gid != 70010 || err != nil {
		t.Errorf("of a group with very many members: %d, %v", gid, err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, database := range []string{"passwd", "group", "initgroups"} {
		for _, out := range []string{"remote:*:70001:70000:R:/h:/s\n", "staff:*:70010:a,b\n", "remote     1 2 3\n", "", "\n", "a:b:c:d:e:f:g", "remote 4294967295", "70001:::", "remote\t1"} {
			f.Add(database, "remote", out, false)
			f.Add(database, "70001", out, true)
		}
	}
	f.Fuzz(func(t *testing.T, database, key, out string, cut bool) {
		e, err := parseAnswer(question{database, key}, out, cut)
		if err != nil {
			if !errors.Is(err, errRubbish) || e.name != "" || e.groups != nil {
				t.Fatalf("%+v, %v", e, err)
			}
			return
		}
		if database != "initgroups" && !isName(e.name) || len(e.groups) > mostGroups || e.members != nil {
			t.Fatalf("%+v", e)
		}
		for _, id := range append(e.groups, e.id, e.gid) {
			if id == 1<<32-1 {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// BenchmarkCaller: what it costs to find out the groups of a user of this machine who is in four, among 60 users and 80 groups.
func BenchmarkCaller(b *testing.B) {
	dir := b.TempDir()
	var passwd, group []byte
	for i := range 60 {
		passwd = fmt.Appendf(passwd, "user%d:x:%d:%d:A Name,,,:/home/user%d:/bin/bash\n", i, 1000+i, 1000+i, i)
	}
	for i := range 80 {
		members := ""
		if i >= 76 {
			members = "user1,user2,user50"
		}
		group = fmt.Appendf(group, "group%d:x:%d:%s\n", i, 2000+i, members)
	}
	for name, text := range map[string][]byte{"passwd": passwd, "group": group, "nsswitch.conf": []byte("passwd: files\ngroup: files\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	d := New(dir, "")
	d.passwd.settled, d.group.settled, d.nsswitch.settled = 0, 0, 0
	for b.Loop() {
		u, err := d.User("user50")
		if err != nil {
			b.Fatal(err)
		}
		if names, err := d.GroupNames(u); len(names) != 4 || err != nil {
			b.Fatal(names, err)
		}
	}
}
