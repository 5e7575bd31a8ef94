package proc_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/shim"
)

// counter prints numbers, and is caught in the middle: the last ones when it is to end.
const counter = `
import os, sys, time
n = 0
while n < 40:
    n += 1
    print(n, os.getpid(), open("/proc/%d/comm" % os.getpid()).read().strip(), flush=True)
    time.sleep(0.02)
    while n == 30 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
sys.exit(9)
`

func (w *world) checkpoint(t *proc.Task) proc.CheckpointResult {
	w.Helper()
	res, err := t.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	w.must(err)
	return res
}

func (w *world) restore(s proc.Spec, o proc.RestoreOptions) *proc.Task {
	w.Helper()
	o.Store = w.store
	t, _, err := w.rt.Restore(w.ctx, s, o)
	w.must(err)
	return t
}

// TestCRIUElsewhere: a task that was started before CRIU was there is checkpointed, and restored when CRIU has moved since.
func TestCRIUElsewhere(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	now, before := w.rt.CRIU, filepath.Join(t.TempDir(), "criu")
	w.must(os.Symlink(now, before))
	w.rt.CRIU = ""
	s, task := w.counting()
	task.Close()
	w.rt.CRIU = before
	task, err := w.rt.Attach(w.ctx, s.ID)
	w.must(err)
	w.checkpoint(task)
	task.Close()
	w.must(os.Remove(before))
	w.rt.CRIU = now
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter(s.ID)
}

// TestCheckpointTellsItsRequest: who has asked for a checkpoint, and got no answer, finds it by what it was asked for with.
func TestCheckpointTellsItsRequest(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	task := w.start(w.spec("t", "sleep", "1000"))
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, Asked: 4711})
	w.must(err)
	store, err := checkpoint.Open(w.store, checkpoint.Options{})
	w.must(err)
	images, err := store.Images("t")
	w.must(err)
	if len(images) != 1 || shim.AskedOf(images[0].Meta) != 4711 {
		t.Errorf("the images are %+v", images)
	}
}

// checkCounter checks that every line came once, from one pid.
func (w *world) checkCounter(id headrace.TaskID) {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(w.log(id, "stdout")), "\n")
	if len(lines) != 40 {
		w.Errorf("%d lines, want 40", len(lines))
	}
	for i, l := range lines {
		f := strings.Fields(l)
		if len(f) != 3 || f[0] != strconv.Itoa(i+1) || f[1] != strings.Fields(lines[0])[1] || f[2] != "python3" {
			w.Errorf("line %d is %q", i+1, l)
		}
	}
}

func TestCheckpointRestore(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("count", "python3", "-c", counter)
	task := w.start(s)
	for i, at := range []string{"\n3 ", "\n10 ", "\n20 "} {
		w.awaitOutput(task, at)
		res := w.checkpoint(task)
		if res.Chain != i+1 || i > 0 && res.Stored > res.Total/2 {
			t.Errorf("checkpoint %d: %+v, want one that builds on the last", i+1, res)
		}
		if n := len(w.taskProcesses("count")); n != 0 {
			t.Errorf("%d processes run after a checkpoint", n)
		}
		if st := w.stats(task); st.State != headrace.Checkpointed || st.SinceSaveCPU > 200*time.Millisecond {
			t.Errorf("after the checkpoint: %+v", st)
		}
		task.Close()
		if i == 1 { // as after a reboot: no shim is left
			w.must(unix.Kill(w.shimPID("count"), syscall.SIGKILL))
			w.await("the end of the shim", func() bool { _, err := w.rt.Attach(w.ctx, "count"); return errors.Is(err, proc.ErrGone) })
		}
		task = w.restore(s, proc.RestoreOptions{})
	}
	e := w.end(task)
	if e.Code != 9 || e.Lost {
		t.Errorf("ended with %+v, want code 9", e)
	}
	w.checkCounter("count")
	left, err := os.ReadDir(w.rt.TaskDir("count"))
	w.must(err)
	for _, f := range left {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s in the task's directory: %v, %v; want nothing for others", f.Name(), info.Mode(), err)
		}
	}
	if e.Usage.Running < 700*time.Millisecond || e.Usage.OverheadCPU == 0 {
		t.Errorf("usage over all incarnations: %+v", e.Usage)
	}
}

func TestCheckpointOfSuspended(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s, task := w.counting()
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	w.checkpoint(task)
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
}

// A tree that forks all the time can be dumped again and again.
func TestCheckpointOfForkingTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	s := w.spec("forking", "/bin/sh", "-c", "while :; do sleep 0.002; echo x; done")
	task := w.start(s)
	for i := range 15 {
		w.awaitOutput(task, strings.Repeat("x\n", 5*(i+1)))
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
}

// A stop signal that a process had when it ended is in nobody's way.
func TestCheckpointWithPendingStopOfTheDead(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("dead", "python3", "-uc", `
import os, signal, time
if os.fork() == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
    os.kill(os.getpid(), signal.SIGTSTP)
    os._exit(0)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print("ready")
while True: time.sleep(0.01); print("x")
`)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.checkpoint(task)
	w.restore(s, proc.RestoreOptions{})
	at := len(w.log("dead", "stdout"))
	w.await("progress", func() bool { return len(w.log("dead", "stdout")) > at })
}

// A stop of the task's own outlives a checkpoint.
func TestRestoreKeepsOwnStops(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("own", "/bin/bash", "-c", `sleep 1000 & kill -STOP $!; echo ready; while :; do :; done`)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	before := w.stats(task).Usage.User
	w.await("progress", func() bool { return w.stats(task).Usage.User > before })
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	w.must(task.Resume(w.ctx))
}

// A unix socket to the outside cannot be dumped: that is found out without harm.
func TestNotCheckpointable(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	path := filepath.Join(t.TempDir(), "outside.sock")
	l, err := net.Listen("unix", path)
	w.must(err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	task := w.start(w.spec("sock", "python3", "-uc", `
import os, socket, time, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
print("ready")
while not os.path.exists(os.environ["GO_ON"]): time.sleep(0.02)
s.send(b"x"); print("fine")
`, path))
	w.awaitOutput(task, "ready")
	_, err = task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNotCheckpointable) || !strings.Contains(err.Error(), "unix socket") {
		t.Errorf("checkpoint of a task with a unix socket to the outside: %v", err)
	}
	if e := w.end(task); e.Code != 0 || !strings.Contains(w.log("sock", "stdout"), "fine") {
		t.Errorf("the task was harmed: %+v", e)
	}
}

func TestKilledCRIULeavesTheTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	s := w.spec("count", "python3", "-c", "import random; b = random.randbytes(200 << 20)\n"+counter)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	for shim, killed := w.shimPID("count"), false; ; killed = false { // CRIU may be through before it is seen
		before := w.dumped()
		failed := make(chan error, 1)
		go func() {
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, Full: true})
			failed <- err
		}()
		var err error
		w.await("the dump", func() bool {
			killed = killed || w.killCRIU(shim, before+50<<20)
			select {
			case err = <-failed:
				return true
			default:
				return false
			}
		})
		if err != nil && killed {
			break
		}
		w.must(err)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.checkpoint(task) // it can be taken again
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
}

// TestKilledCRIULeavesNoNames: the names that CRIU gives to files that were deleted under one name
// and have others go when it is killed; those of others stay.
func TestKilledCRIULeavesNoNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	if os.Geteuid() != 0 {
		t.Skip("only files of root's tasks get such names")
	}
	dir, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	w.withAction(fmt.Sprintf("[ -e %[2]s ] || { ls %[1]s/link_remap.* >%[2]s; kill -KILL $PPID; }", dir, seen))
	names := func() (list []string) {
		found, err := filepath.Glob(filepath.Join(dir, "link_remap.*"))
		w.must(err)
		for _, f := range found {
			list = append(list, filepath.Base(f))
		}
		return list
	}
	s := w.spec("linked", "python3", "-uc", `
import os, sys, time
d = sys.argv[1] + "/"
f = open(d + "one", "w"); os.link(d + "one", d + "other"); os.link(d + "one", d + "link_remap.4711"); os.unlink(d + "one")
print("ready")
time.sleep(1000)`, dir)
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.must(os.WriteFile(filepath.Join(dir, "link_remap.4712"), nil, 0o600))
	if _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the checkpoint whose CRIU was killed: %v", err)
	}
	if b, err := os.ReadFile(seen); strings.Count(string(b), "\n") < 3 {
		t.Errorf("CRIU has given no name: %q, %v", b, err)
	}
	if got := names(); !slices.Equal(got, []string{"link_remap.4711", "link_remap.4712"}) {
		t.Errorf("there are %q", got)
	}
	w.checkpoint(task) // those of a checkpoint that counts stay until the restore
	if got := names(); len(got) != 3 {
		t.Errorf("after a checkpoint there are %q", got)
	}
	w.restore(s, proc.RestoreOptions{}).Kill(w.ctx, time.Millisecond)
	if got := names(); len(got) != 2 {
		t.Errorf("after the restore there are %q", got)
	}
}

// killCRIU kills the criu dump that a supervisor has run when the store holds more than so many bytes of pages.
func (w *world) killCRIU(shim int, dumped int64) bool {
	for _, helper := range children(shim) {
		for _, pid := range children(helper) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(b), "\x00dump\x00") && w.dumped() > dumped {
				return unix.Kill(pid, syscall.SIGKILL) == nil
			}
		}
	}
	return false
}

// dumped returns how many bytes of pages the store holds.
func (w *world) dumped() (n int64) {
	files, _ := filepath.Glob(w.store + "/*/*/pages-*")
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			n += st.Size()
		}
	}
	return n
}

func TestKillInterruptsADump(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dumped := filepath.Join(t.TempDir(), "dumped")
	w.withAction(fmt.Sprintf(": >%s; exec sleep 1000", dumped))
	task := w.start(w.spec("big", "/bin/sh", "-c", "echo ready; exec sleep 1000"))
	w.awaitOutput(task, "ready")
	failed := make(chan error, 1)
	go func() {
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		failed <- err
	}()
	w.await("the dump", func() bool { _, err := os.Stat(dumped); return err == nil })
	w.must(task.Kill(w.ctx, time.Millisecond))
	w.end(task)
	if n := len(w.taskProcesses("big")); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if <-failed == nil {
		t.Error("the checkpoint of a task that was killed succeeded")
	}
}

func TestDiskFullLeavesTheTask(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=64m", "files": "size=1g,nr_inodes=8"} {
		t.Run(name, func(t *testing.T) { fullDisk(t, options) })
	}
}

func fullDisk(t *testing.T, options string) {
	w := newWorld(t).needCheckpoints()
	w.must(os.Mkdir(w.store, 0o700))
	w.must(unix.Mount("tmpfs", w.store, "tmpfs", 0, "mode=700,"+options))
	defer unix.Unmount(w.store, unix.MNT_DETACH)
	s := w.spec("count", "python3", "-c", "import random; b = random.randbytes(120 << 20)\n"+counter)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNoSpace) {
		t.Errorf("dump to a full device: %v", err)
	}
	if left, _ := filepath.Glob(w.store + "/*/0*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	w.end(task)
	w.checkCounter("count")
}

// TestDeletedFilesDoNotFillTheStore: CRIU writes the contents of deleted files without
// asking for room, and as root to the last byte.
func TestDeletedFilesDoNotFillTheStore(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	w.must(os.Mkdir(w.store, 0o700))
	w.must(unix.Mount("tmpfs", w.store, "tmpfs", 0, "mode=700,size=128m"))
	defer unix.Unmount(w.store, unix.MNT_DETACH)
	s := w.spec("count", "python3", "-c", `
import mmap, os, sys
kept = []
for name in "open", "mapped", "both":
    f = open(sys.argv[1] + "/" + name, "w+b"); os.unlink(f.name)
    f.write(bytes([1]) * (50 << 20)); f.flush()
    kept.append(f if name == "open" else (mmap.mmap(f.fileno(), 0), f if name == "both" else f.close()))
`+counter, t.TempDir())
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	least, over, done := int64(1<<62), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var st unix.Statfs_t
			if unix.Statfs(w.store, &st) == nil {
				least = min(least, int64(st.Bavail)*st.Bsize)
			}
			select {
			case <-over:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	close(over)
	<-done
	if !errors.Is(err, proc.ErrNoSpace) || least < 100<<20 {
		t.Errorf("%v; %d bytes were left", err, least)
	}
	w.must(unix.Mount("", w.store, "", unix.MS_REMOUNT, "size=256m"))
	_, err = task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, MaxDeleted: 140 << 20})
	if left, _ := filepath.Glob(w.store + "/*/0*"); !errors.Is(err, proc.ErrNotNow) || len(left) != 0 {
		t.Errorf("more than may be written: %v; %v", err, left)
	}
	_, err = task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, MaxDeleted: 160 << 20})
	w.must(err)
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
}

// TestDeletedFilesDoNotFillTheState: a restore makes deleted files in the state directory, whose file system has the
// records and logs of all. What has no room there waits until there is some.
func TestDeletedFilesDoNotFillTheState(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	files := t.TempDir()
	if st := new(unix.Statfs_t); unix.Statfs(files, st) != nil || st.Type == unix.TMPFS_MAGIC {
		t.Skip("the directory for temporary files is in memory, and deleted files are made there again")
	}
	disk := t.TempDir()
	w.must(unix.Mount("tmpfs", disk, "tmpfs", 0, "mode=711,size=64m"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	w.rt.Dir = filepath.Join(disk, "tasks")
	free := func() int64 {
		var st unix.Statfs_t
		w.must(unix.Statfs(disk, &st))
		return int64(st.Bavail) * st.Bsize
	}
	s := w.spec("count", "python3", "-c", `
import os, sys
f = open(sys.argv[1] + "/deleted", "w+b"); os.unlink(f.name)
f.write(bytes([1]) * (62 << 20)); f.flush()
`+counter, files)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	w.checkpoint(task)
	before := free()
	_, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNotNow) || !strings.Contains(err.Error(), "no room for deleted files") {
		t.Errorf("a restore without room: %v", err)
	}
	if after := free(); after < before-1<<20 {
		t.Errorf("%d bytes were free before it and %d after", before, after)
	}
	w.must(unix.Mount("", disk, "", unix.MS_REMOUNT, "size=128m"))
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
	w.must(w.rt.Remove(w.ctx, "count"))
}

// What was unpacked of an image goes with the restore that is called off by a kill, and by
// the next one if the supervisor itself was killed.
func TestScratchIsLeftEmpty(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	scratch := t.TempDir()
	big := "import random; b = random.randbytes(64 << 20); print('ready', flush=True); import time; time.sleep(1000)"
	unpacked := func() (n int64) {
		files, _ := filepath.Glob(scratch + "/*/*/pages-*")
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				n += st.Size()
			}
		}
		return n
	}
	o := proc.RestoreOptions{Store: w.store, Compress: true, Scratch: scratch}
	goOn := filepath.Join(t.TempDir(), "go-on")
	w.withCRIU(fmt.Sprintf("[ $1 != restore -o -e %s ] || exec sleep 1000; exec %s \"$@\"", goOn, w.rt.CRIU))
	restoring := func(id string) (*proc.Task, proc.Spec) {
		s := w.spec(id, "python3", "-c", big)
		task := w.start(s)
		w.awaitOutput(task, "ready")
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, Compress: true})
		w.must(err)
		go w.rt.Restore(w.ctx, s, o)
		w.await("something that is unpacked", func() bool { return unpacked() > 0 })
		return task, s
	}
	task, _ := restoring("killed")
	w.must(task.Kill(w.ctx, time.Millisecond))
	w.end(task)
	if n := unpacked(); n != 0 {
		t.Errorf("%d bytes are left of a restore that was called off", n)
	}
	task, s := restoring("orphan")
	w.must(unix.Kill(w.shimPID("orphan"), unix.SIGKILL))
	w.end(task)
	w.must(os.WriteFile(goOn, nil, 0o644))
	again, _, err := w.rt.Restore(w.ctx, s, o)
	w.must(err)
	if n := unpacked(); n != 0 {
		t.Errorf("%d bytes are left of a restore whose supervisor was killed", n)
	}
	w.must(again.Kill(w.ctx, time.Millisecond))
}

// A damaged checkpoint is never restored.
func TestDamagedCheckpoint(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s, task := w.counting()
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.awaitOutput(task, "\n12 ")
	w.checkpoint(task)
	damage := func(seq string) {
		files, _ := filepath.Glob(filepath.Join(w.store, "count", seq, "pages-*.img"))
		if len(files) == 0 {
			t.Fatal("no pages to damage")
		}
		f, err := os.OpenFile(files[len(files)-1], os.O_RDWR, 0)
		w.must(err)
		defer f.Close()
		b := make([]byte, 64)
		st, err := f.Stat()
		w.must(err)
		at := st.Size() / 4096 / 2 * 4096
		if off, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA); err == nil {
			at = off
		}
		_, err = f.ReadAt(b, at)
		w.must(err)
		for i := range b {
			b[i] ^= 0x55
		}
		_, err = f.WriteAt(b, at)
		w.must(err)
	}
	damage("000002")
	// The first is intact: the log is cut back to it, and every line comes once.
	task2, res, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	w.must(err)
	if res.Seq != 1 || len(res.Skipped) != 1 {
		t.Errorf("restored %+v, want the first checkpoint with a reason", res)
	}
	w.awaitOutput(task2, "\n12 ")
	w.checkpoint(task2)
	w.must(w.rt.Reset(w.ctx, s))
	damage("000001")
	_, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNoImage) {
		t.Errorf("restore without an intact checkpoint: %v", err)
	}
}

// An older checkpoint is known as such even if the last is not there any more:
// the log is cut back, and every line comes once.
func TestOlderCheckpointAfterTheLastIsGone(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s, task := w.counting()
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.awaitOutput(task, "\n12 ")
	last := w.checkpoint(task)
	w.must(os.RemoveAll(filepath.Join(w.store, "count", fmt.Sprintf("%06d", last.Seq))))
	w.end(w.restore(s, proc.RestoreOptions{Last: last.Seq}))
	w.checkCounter("count")
}

// A task that ran on and changed a file of its own must not be put back.
func TestStaleCheckpoint(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	own := filepath.Join(t.TempDir(), "own")
	s := w.spec("stale", "python3", "-c", `
import os, sys, time
f = open(sys.argv[1], "a")
for i in range(1, 41):
    print(i, flush=True); f.write("%d\n" % i); f.flush(); time.sleep(0.02)
    while i == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
time.sleep(1000)
`, own)
	task := w.start(s)
	w.awaitOutput(task, "\n3\n")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.must(os.WriteFile(w.goOn(), nil, 0o644))
	w.awaitOutput(task, "\n30\n")
	w.must(unix.Kill(w.shimPID("stale"), syscall.SIGKILL))
	w.end(task)
	_, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store, RanOn: true})
	if !errors.Is(err, proc.ErrNoImage) || !strings.Contains(err.Error(), own) {
		t.Errorf("restore of a task whose file has changed: %v", err)
	}
}

// TestCheckpointOutlivesItsDevicesNumber: as after a reboot, what a task was writing is first
// not mounted, and then on a device of another number. Its checkpoint is as good as before.
func TestCheckpointOutlivesItsDevicesNumber(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	w.must(os.WriteFile(image, nil, 0o600))
	w.must(os.Truncate(image, 32<<20))
	loop := func() string { // goes with its mount
		out, err := exec.Command("losetup", "-f", "--show", image).CombinedOutput()
		if err != nil {
			t.Skipf("there are no loop devices: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	mount := func(device string) uint64 {
		t.Helper()
		if err := unix.Mount(device, dir, "ext4", 0, ""); err != nil {
			t.Skipf("no ext4: %v", err)
		}
		exec.Command("losetup", "-d", device).Run() // when it is unmounted
		var st unix.Stat_t
		w.must(unix.Stat(dir, &st))
		return uint64(st.Dev)
	}
	first := loop()
	if out, err := exec.Command("mkfs.ext4", "-q", first).CombinedOutput(); err != nil {
		exec.Command("losetup", "-d", first).Run()
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	second := loop()
	was := mount(first)
	defer func() { unix.Unmount(dir, unix.MNT_DETACH) }()

	s := w.spec("count", "python3", "-c", "import sys; f = open(sys.argv[1], 'a'); f.write('begun'); f.flush()\n"+counter, filepath.Join(dir, "own"))
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.awaitOutput(task, "\n12 ")
	powerFails := func() {
		w.must(unix.Kill(w.shimPID("count"), syscall.SIGKILL))
		w.await("the end of the shim", func() bool { return w.findShim("count") == 0 })
	}
	powerFails()
	w.end(task)
	w.await("the file system to be free", func() bool { return unix.Unmount(dir, 0) == nil })
	o := proc.RestoreOptions{Store: w.store, RanOn: true}
	if _, _, err := w.rt.Restore(w.ctx, s, o); err == nil || errors.Is(err, proc.ErrNoImage) {
		t.Errorf("restore while its file system is not mounted: %v; want an error that leaves the image usable", err)
	}
	powerFails() // it may not see what is mounted from now on
	if is := mount(second); is == was {
		t.Errorf("the file system is on device %d again", is)
	}
	w.end(w.restore(s, o))
	w.checkCounter("count")
}

func TestPIDsTakenAtRestore(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s := w.spec("forks", "/bin/bash", "-c", `echo $$ > /dev/null; for i in $(seq 30); do
		/bin/sleep 0.02 & wait $!; echo $i
		[ $i != 22 ] || until [ -e "$GO_ON" ]; do /bin/sleep 0.02 & wait $!; done
	done; exit 4`)
	task := w.start(s)
	for _, at := range []string{"\n3\n", "\n8\n", "\n13\n", "\n18\n"} {
		w.awaitOutput(task, at)
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	if e := w.end(task); e.Code != 4 {
		t.Errorf("ended with %+v", e)
	}
	var want strings.Builder
	for i := range 30 {
		fmt.Fprintln(&want, i+1)
	}
	if got := w.log("forks", "stdout"); got != want.String() {
		t.Errorf("printed %q", got)
	}
}

func TestCheckpointRefusedWithoutCRIU(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "sleep", "1000"))
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	if !errors.Is(err, proc.ErrUnsupported) {
		t.Errorf("checkpoint without CRIU: %v", err)
	}
	if st := w.stats(task); st.State != headrace.Running {
		t.Errorf("the task is %v", st.State)
	}
}

// TestRestoreIsNoted: whether a task has run since its checkpoint is known when nobody is left who has restored it.
func TestRestoreIsNoted(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s, task := w.counting()
	w.checkpoint(task)
	task.Close()
	boot, err := linux.BootID()
	w.must(err)
	asked := linux.Clock()
	begun := func(boot string, since time.Duration) bool {
		begun, err := w.rt.Begun(s.ID, boot, since)
		w.must(err)
		return begun
	}
	if begun(boot, asked) {
		t.Error("it has run since it was checkpointed")
	}
	task = w.restore(s, proc.RestoreOptions{})
	w.must(task.Kill(w.ctx, time.Millisecond))
	if !begun(boot, asked) || begun(boot, linux.Clock()) || begun("another", asked) {
		t.Errorf("it has run: %v, since now: %v, in another boot: %v", begun(boot, asked), begun(boot, linux.Clock()), begun("another", asked))
	}
}
