package attach_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headrace/internal/linux/cgroup"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/proc/checkpoint"
	"headrace/proc/shim"
)

// removal takes a checkpointed container from one machine to another: two daemons
// with state directories of their own.
type removal struct {
	from, to *world
	image    *checkpoint.Image // what was packed
}

const newName = "c2"

// newRemoval has each machine prepared before it serves anybody.
func newRemoval(t *testing.T, prepare ...func(*world)) *removal {
	r := &removal{from: newWorld(t, nil).needCheckpoints()}
	r.to = newWorld(t, nil).needCheckpoints()
	r.to.dir = r.from.dir // what is at the same path on all machines
	for _, p := range prepare {
		p(r.from)
		p(r.to)
	}
	r.from.serve(run)
	return r
}

// image returns the newest checkpoint of a task in a store.
func image(t *testing.T, dir, task string) *checkpoint.Image {
	t.Helper()
	s, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	images, err := s.Images(task)
	if err != nil || len(images) == 0 {
		t.Fatalf("no checkpoint of %s: %v", task, err)
	}
	return images[len(images)-1]
}

// pack takes the checkpoint of c1 along.
func (r *removal) pack() (taskDir string) {
	t := r.from.T
	t.Helper()
	r.image = image(t, r.from.store, "c1")
	portable, err := shim.PortableOf(r.image.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return portable.TaskDir
}

// arrive handles a container that is to go on with what was packed. spoil may
// change the images; a restore that fails is followed by a start.
func (r *removal) arrive(taskDir string, spoil func(store string)) handler {
	return func(w *world, conn *net.UnixConn) {
		q, files, peer, err := attach.Receive(conn)
		s := started{request: q, peer: peer, err: err}
		defer func() { w.started <- s }()
		if err != nil {
			return
		}
		defer files.Close()
		s.spec = q.Spec(peer)
		if s.task, s.err = w.rt.Hold(w.ctx, s.spec, files.Stdio()); s.err != nil {
			return
		}
		attach.Answer(conn, attach.Reply{})
		if s.err = r.fetch(string(s.spec.ID)); s.err != nil {
			return
		}
		if spoil != nil {
			spoil(w.store)
		}
		_, err = s.task.RestoreMoved(w.ctx, proc.RestoreOptions{Store: w.store, MovedFrom: taskDir})
		if err != nil {
			w.Logf("the restore failed: %v", err)
			s.err = s.task.Start(w.ctx)
		}
	}
}

// fetch copies the images that were packed into the other machine's store.
func (r *removal) fetch(id string) error {
	store, err := checkpoint.Open(r.to.store, checkpoint.Options{})
	if err != nil {
		return err
	}
	_, err = store.Import(r.to.ctx, id, func(create func(string) (*os.File, error)) error {
		return r.image.Export(func(name string, from *os.File) error {
			to, err := create(name)
			if err != nil {
				return err
			}
			_, err = io.Copy(to, from)
			return errors.Join(err, to.Close())
		})
	})
	return err
}

// attachNew starts the command in a new container on the other machine.
func (r *removal) attachNew(argv ...string) *container {
	return r.to.attachWith(func(cmd *exec.Cmd) {
		for i, a := range cmd.Args {
			if a == "c1" {
				cmd.Args[i] = newName
			}
		}
	}, argv...)
}

// A container that was checkpointed goes on in another container of another daemon,
// and does there what any container does.
func TestMoved(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there")
	}
	r := newRemoval(t)
	command := []string{"python3", "-c", strings.Replace(counter, `n == 30 and not os.path.exists("go")`, `n in (15, 25) and not os.path.exists(f"go{n}")`, 1)}
	c := r.from.attach(command...)
	task := c.task()
	r.from.awaitText("count", "\n10\n")
	r.from.checkpoint(task)
	taskDir := r.pack()
	if c.signal(9); c.wait() != 137 {
		t.Error("the old container has not ended")
	}
	r.from.end(task)
	before := r.from.read("count")

	r.to.serve(r.arrive(taskDir, nil))
	n := r.attachNew(command...)
	moved := n.task()
	goOn := func(at string) { r.to.must(os.WriteFile(r.to.path("go"+at), nil, 0o600)) }
	goOn("15")
	r.to.awaitText("count", "\n20\n")
	// Whose directory the moved one still has, when both are on one machine.
	r.from.must(r.from.rt.Remove(r.from.ctx, "c1"))
	r.to.checkpoint(moved) // in place, of what was moved
	goOn("25")
	if _, _, err := r.to.rt.Restore(r.to.ctx, proc.Spec{ID: newName, Attached: true}, proc.RestoreOptions{Store: r.to.store}); err != nil {
		t.Fatal(err)
	}
	if code := n.wait(); code != 9 {
		t.Errorf("exit code %d", code)
	}
	if got := r.to.read("count"); got != numbers(40) {
		t.Errorf("not one number each: %q", got)
	}
	if c.stdout.String()+n.stdout.String() != numbers(40) || !strings.HasPrefix(before, c.stdout.String()) {
		t.Errorf("output %q, then %q", c.stdout.String(), n.stdout.String())
	}
	r.to.awaitNothingLeft()
	if err := r.to.rt.Remove(r.to.ctx, newName); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(taskDir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", taskDir, err)
	}
}

const cgroupReader = `
import os, time
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
wait("open")
f = os.open(open("open").read(), os.O_RDONLY)
open("opened", "w").write("yes\n")
wait("go")
raise SystemExit(9 if os.read(f, 100) else 1)
`

// A container has a file of its own cgroup open, as a Java virtual machine has again and
// again. On the other machine it has that of its new cgroup, which has another name.
func TestMovedWithFileOfCgroup(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there")
	}
	r := newRemoval(t, func(w *world) {
		w.must(os.MkdirAll(w.rt.Dir, 0o711))
		base, err := cgroup.Open(w.rt.Dir)
		if base == nil {
			t.Skip(err)
		}
		w.rt.Cgroups = base
		w.Cleanup(base.Close)
	})
	command := []string{"python3", "-c", cgroupReader}
	c := r.from.attach(command...)
	task := c.task()
	group := r.from.rt.Cgroups.Find("c1").Dirs()
	if len(group) == 0 {
		t.Skip("tasks have no cgroups here")
	}
	r.from.must(os.WriteFile(r.from.path("new"), []byte(filepath.Join(group[0], "cgroup.procs")), 0o644))
	r.from.must(os.Rename(r.from.path("new"), r.from.path("open")))
	r.from.awaitText("opened", "yes\n")
	r.from.checkpoint(task)
	taskDir := r.pack()
	c.signal(9)
	r.from.end(task)

	r.to.serve(r.arrive(taskDir, nil))
	n := r.attachNew(command...)
	n.task()
	r.to.must(os.WriteFile(r.to.path("go"), nil, 0o644))
	if code := n.wait(); code != 9 {
		t.Errorf("exit code %d", code)
	}
}

// What cannot be restored is started from the beginning, once.
func TestMovedButBroken(t *testing.T) {
	r := newRemoval(t)
	command := []string{"/bin/bash", "-c", `echo run >> runs; read -t 0.01; until [ -e go ]; do sleep 0.01; done; exit 4`}
	c := r.from.attach(command...)
	task := c.task()
	r.from.awaitText("runs", "run\n")
	r.from.checkpoint(task)
	taskDir := r.pack()
	c.signal(9)
	r.from.end(task)

	r.to.serve(r.arrive(taskDir, func(store string) {
		pages, _ := filepath.Glob(filepath.Join(store, newName, "*", "pages-*.img"))
		if len(pages) == 0 {
			t.Error("there are no images")
			return
		}
		if err := os.Truncate(pages[0], 4096); err != nil {
			t.Error(err)
		}
	}))
	n := r.attachNew(command...)
	n.task()
	r.to.awaitText("runs", "run\nrun\n")
	r.to.must(os.WriteFile(r.to.path("go"), nil, 0o644))
	if code := n.wait(); code != 4 {
		t.Errorf("exit code %d", code)
	}
	if got := r.to.read("runs"); got != "run\nrun\n" {
		t.Errorf("runs: %q", got)
	}
}

// A container that is given up while it is held runs nothing.
func TestHeldAndAbandoned(t *testing.T) {
	w := newWorld(t, nil)
	w.serve(func(w *world, conn *net.UnixConn) {
		q, files, peer, err := attach.Receive(conn)
		s := started{err: err}
		if err == nil {
			s.task, s.err = w.rt.Hold(w.ctx, q.Spec(peer), files.Stdio())
			files.Close()
		}
		w.started <- s
	})
	c := w.attach("/bin/bash", "-c", "echo run >> runs")
	task := c.task()
	c.signal(9)
	if e := w.end(task); !e.Abandoned {
		t.Errorf("%+v", e)
	}
	if err := task.Start(w.ctx); err != nil {
		t.Errorf("a start afterwards: %v", err)
	}
	if got := w.read("runs"); got != "" {
		t.Errorf("it ran: %q", got)
	}
}
