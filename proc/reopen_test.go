package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// victim has files in every way in which a process can have one, all below its
// first argument, and says what they hold whenever its standard input, a file,
// has grown. It ends when the input says so.
const victim = `
import fcntl, mmap, os, sys, time
top = sys.argv[1]
os.chdir(top + "/sub/cwd")
path = top + "/sub/data"
ro = open(path, "rb")
rw = open(path, "r+b", buffering=0)
log = os.open(top + "/sub/log", os.O_WRONLY | os.O_APPEND)
name = os.open(path, os.O_PATH)
nofollow = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
folder = os.open(top + "/sub", os.O_RDONLY | os.O_DIRECTORY)
fcntl.flock(rw, fcntl.LOCK_EX)
fifo = os.open(top + "/sub/fifo", os.O_RDWR)
os.write(fifo, b"queued")
m = open(top + "/sub/mapped", "r+b")
shared = mmap.mmap(m.fileno(), 4096)
private = mmap.mmap(m.fileno(), 4096, flags=mmap.MAP_PRIVATE)
gone = open(top + "/sub/gone", "w+b", buffering=0)
gone.write(b"deleted file")
os.unlink(gone.name)
asked = open(sys.argv[2])
n = 0
while True:
    line = asked.readline()
    if not line:
        time.sleep(0.01)
        continue
    n += 1
    if line.strip() == "end":
        break
    ro.seek(0); os.lseek(nofollow, 0, 0); gone.seek(0)
    os.write(log, b"%d\n" % n)
    print(n, ro.read(4).decode(), os.pread(rw.fileno(), 4, 0).decode(), os.read(nofollow, 4).decode(),
          shared[:4].decode(), private[:4].decode(), gone.read().decode(), os.getcwd() == top + "/sub/cwd",
          os.readlink("/proc/self/fd/%d" % ro.fileno()) == path, os.readlink("/proc/self/fd/%d" % name) == path,
          sorted(os.listdir(folder))[:2], os.read(fifo, 6).decode(), os.getuid(), flush=True)
    os.write(fifo, b"queued")
`

const victimSays = "%d data data data mapp mapp deleted file True True True ['cwd', 'data'] queued 0\n"

// A pen is a victim with its files, which others may change.
type pen struct {
	*world
	top   string
	spec  proc.Spec
	task  *proc.Task
	asked int
}

func newPen(t *testing.T, id string) *pen {
	w := newWorld(t).needCheckpoints()
	p := &pen{world: w, top: t.TempDir()}
	w.must(os.MkdirAll(filepath.Join(p.top, "sub", "cwd"), 0o755))
	for name, content := range map[string]string{"data": "data", "log": "", "mapped": "mapped" + strings.Repeat("m", 8000)} {
		w.must(os.WriteFile(p.at(name), []byte(content), 0o644))
	}
	w.must(unix.Mkfifo(p.at("fifo"), 0o644))
	input := filepath.Join(p.top, "input")
	w.must(os.WriteFile(input, nil, 0o644))
	p.spec = w.spec(id, "python3", "-c", victim, p.top, input)
	p.task = w.start(p.spec)
	p.ask()
	return p
}

func (p *pen) at(name string) string { return filepath.Join(p.top, "sub", name) }

// ask has the victim look at its files, and checks what it sees.
func (p *pen) ask() {
	p.Helper()
	p.say("look")
	p.asked++
	p.awaitOutput(p.task, fmt.Sprintf(victimSays, p.asked))
}

func (p *pen) say(line string) {
	p.Helper()
	f, err := os.OpenFile(filepath.Join(p.top, "input"), os.O_WRONLY|os.O_APPEND, 0)
	p.must(err)
	_, err = f.WriteString(line + "\n")
	p.must(errors.Join(err, f.Close()))
}

func (p *pen) tryRestore() error {
	t, _, err := p.rt.Restore(p.ctx, p.spec, proc.RestoreOptions{Store: p.store})
	if err == nil {
		p.task = t
	}
	return err
}

func (p *pen) end() {
	p.Helper()
	p.say("end")
	if e := p.world.end(p.task); e.Code != 0 {
		p.Errorf("the victim ended with %+v", e)
	}
}

func TestRestoreOpensTheSameFiles(t *testing.T) {
	p := newPen(t, "same")
	for range 3 { // what was restored can be dumped and restored again
		p.checkpoint(p.task)
		p.must(p.tryRestore())
		p.ask()
	}
	// As its supervisor sees it: memory is mounted in its namespace.
	dir := fmt.Sprintf("/proc/%d/root%s", p.shimPID("same"), p.rt.TaskDir("same"))
	for _, name := range []string{"deleted/made", "memory/images", "memory/deleted"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("the restore has left %s behind: %v", name, err)
		}
	}
	p.end()
}

// swap is a change of a checkpointed task's files, which undo takes back.
type swap struct {
	name   string
	path   string // what the refusal names
	reason string
	do     func(p *pen) (undo func() error, err error)
}

// aside moves a file out of its place, puts something there, and returns how to
// put it back.
func (p *pen) aside(name string, put func(path string) error) (func() error, error) {
	path := p.at(name)
	kept := path + ".kept"
	if err := os.Rename(path, kept); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(os.RemoveAll(path), os.Rename(kept, path)) }, put(path)
}

func swaps() []swap {
	link := func(name string) func(p *pen) (func() error, error) {
		return func(p *pen) (func() error, error) {
			return p.aside(name, func(path string) error { return os.Symlink(path+".kept", path) })
		}
	}
	// Another file, alike in everything that can be seen of it.
	twin := func(name string) func(p *pen) (func() error, error) {
		return func(p *pen) (func() error, error) {
			return p.aside(name, func(path string) error {
				b, err := os.ReadFile(path + ".kept")
				if err != nil {
					return err
				}
				return os.WriteFile(path, b, 0o644)
			})
		}
	}
	return []swap{
		{"file by a link", "/sub/data", "symbolic link", link("data")},
		{"file by another", "/sub/data", "another file is there", twin("data")},
		{"log by a link", "/sub/log", "symbolic link", link("log")},
		{"mapped file by a link", "/sub/mapped", "symbolic link", link("mapped")},
		{"mapped file by another", "/sub/mapped", "another file is there", twin("mapped")},
		{"named pipe by a link", "/sub/fifo", "symbolic link", link("fifo")},
		{"named pipe by another", "/sub/fifo", "another file is there", func(p *pen) (func() error, error) {
			return p.aside("fifo", func(path string) error { return unix.Mkfifo(path, 0o644) })
		}},
		{"named pipe by a file", "/sub/fifo", "was a named pipe and is a regular file", func(p *pen) (func() error, error) {
			return p.aside("fifo", func(path string) error { return os.WriteFile(path, nil, 0o644) })
		}},
		{"working directory by a link", "/sub/cwd", "symbolic link", link("cwd")},
		{"working directory by another", "/sub/cwd", "another file is there", func(p *pen) (func() error, error) {
			return p.aside("cwd", func(path string) error { return os.Mkdir(path, 0o755) })
		}},
		{"parent directory by a link", "/sub", "symbolic link", func(p *pen) (func() error, error) {
			return p.aside("", func(path string) error { return os.Symlink(path+".kept", path) })
		}},
		{"file that is gone", "/sub/data", "not there any more", func(p *pen) (func() error, error) {
			return p.aside("data", func(string) error { return nil })
		}},
		{"file that was given away", "/sub/data", "belonged to user 0 and belongs to user 12345", func(p *pen) (func() error, error) {
			return func() error { return os.Chown(p.at("data"), 0, 0) }, os.Chown(p.at("data"), 12345, 0)
		}},
	}
}

// A restore that would open another file than the task had is refused, whatever
// looks alike; the task stays checkpointed, and goes on when all is as it was.
func TestRestoreRefusesOtherFiles(t *testing.T) {
	p := newPen(t, "other")
	p.checkpoint(p.task)
	for _, s := range swaps() {
		undo, err := s.do(p)
		p.must(err)
		err = p.tryRestore()
		if err == nil {
			t.Fatalf("%s: it was restored", s.name)
		}
		if !errors.Is(err, proc.ErrNotRestorable) || !strings.Contains(err.Error(), p.top+s.path) || !strings.Contains(err.Error(), s.reason) {
			t.Errorf("%s: %v; want %s and %q in it", s.name, err, s.path, s.reason)
		}
		if errors.Is(err, proc.ErrNoImage) || len(p.taskProcesses("other")) != 0 {
			t.Errorf("%s: it is not checkpointed any more: %v", s.name, err)
		}
		p.must(undo())
	}
	p.must(p.tryRestore())
	p.ask()
	p.end()
}

// The program that a process runs is compared too.
func TestRestoreRefusesAnotherProgram(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	program := filepath.Join(t.TempDir(), "program")
	b, err := os.ReadFile("/bin/sleep")
	w.must(err)
	w.must(os.WriteFile(program, b, 0o755))
	s := w.spec("program", program, "1000")
	w.checkpoint(w.start(s))
	w.must(os.Rename(program, program+".kept"))
	w.must(os.WriteFile(program, b, 0o755))
	_, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	if err == nil || !strings.Contains(err.Error(), program+", which the task had open: another file is there") {
		t.Fatalf("the restore said %v", err)
	}
	w.must(os.Rename(program+".kept", program))
	w.restore(s, proc.RestoreOptions{})
}

// swapData exchanges the data file for a link to another one all the time, until it
// is told to stop and has put it back.
func (p *pen) swapData(secret string) (stop func()) {
	p.Helper()
	path, link := p.at("data"), p.at("link")
	p.must(os.Symlink(secret, link))
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() {
		exchange := func() error { return unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) }
		for {
			if err := exchange(); err != nil {
				done <- err
				return
			}
			over := ctx.Err() != nil
			if err := exchange(); err != nil || over {
				done <- err
				return
			}
		}
	}()
	return func() {
		p.Helper()
		cancel()
		p.must(<-done)
		p.must(os.Remove(link))
	}
}

// Somebody who swaps a file all the time never gets the task to have another one:
// each restore is refused, or opens the recorded one.
func TestRestoreWhileFilesAreSwapped(t *testing.T) {
	t.Parallel()
	p := newPen(t, "race")
	secret := filepath.Join(t.TempDir(), "secret")
	p.must(os.WriteFile(secret, []byte("shhh"), 0o644)) // of the same size and mode
	p.checkpoint(p.task)
	restored, refused := 0, 0
	for range 50 {
		stop := p.swapData(secret)
		err := p.tryRestore()
		stop()
		if err == nil {
			restored++
			p.ask() // says that it is the recorded one
			p.checkpoint(p.task)
			continue
		}
		refused++
		if said := err.Error(); !strings.Contains(said, p.at("data")+", which the task had open") || !strings.Contains(said, "symbolic link") {
			t.Errorf("refused for another reason: %v", err)
		}
	}
	t.Logf("%d restored, %d refused", restored, refused)
	if b, err := os.ReadFile(secret); string(b) != "shhh" {
		t.Errorf("the other file holds %q, %v", b, err)
	}
	if restored == 0 || refused == 0 {
		t.Error("that proves nothing")
	}
	p.must(p.tryRestore())
	p.end()
}
