package hostile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/wire"
)

// prepare makes the attacker's own files, links and a task.
func (a *attacker) prepare() {
	h := func(name string) string { return filepath.Join(a.Home, name) }
	victim := a.Dirs[0]
	for _, err := range []error{
		os.WriteFile(h("mine"), []byte(strings.Repeat("my own\n", 100)), 0o644),
		os.WriteFile(h("new\nline"), []byte("mine\n"), 0o644),
		os.WriteFile(h("bytes\xff"), []byte("mine\n"), 0o644),
		os.MkdirAll(h("a/b"), 0o755), os.MkdirAll(h("full"), 0o755),
		os.Symlink(filepath.Join(victim, "secret.txt"), h("link")),
		os.Symlink(victim, h("dirlink")), os.Symlink(victim, h("a/b/dirlink")),
		os.Symlink("/proc/self/fd", h("fd")), os.Symlink("/proc/self/root", h("rootlink")),
		os.Symlink("loop", h("loop")), os.Symlink("nowhere", h("dangling")),
		syscall.Mkfifo(h("fifo"), 0o644),
		// For swaps: what is the attacker's own, and what is not, by the same name.
		os.Mkdir(h("swap"), 0o755), os.WriteFile(h("swap/secret.txt"), []byte("mine\n"), 0o644),
		os.Symlink(victim, h("evil")),
		os.WriteFile(h("flip"), []byte("mine\n"), 0o644), os.Symlink(a.Files[0], h("flop")),
	} {
		if err != nil {
			a.fault("prepare: %v", err)
		}
	}
	for i := range 20 {
		os.WriteFile(h(fmt.Sprintf("full/%d", i)), []byte("mine\n"), 0o644)
	}
	socket, err := net.Listen("unix", h("socket"))
	if err != nil {
		a.fault("prepare: %v", err)
	} else {
		go func() { // nobody may get an answer from here in the daemon's name
			for {
				conn, err := socket.Accept()
				if err != nil {
					return
				}
				if c, err := peerOf(conn); err == nil && c.Uid == 0 {
					a.fault("a process of root's has connected to the attacker's socket")
				}
				conn.Close()
			}
		}()
	}
	var res wire.RunResponse
	a.must("headrace.v1.TaskService.Run", a.command("sleep 100000"), &res)
	a.task = res.Id
}

func peerOf(conn net.Conn) (*unix.Ucred, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, credErr)
}

// script tells all that a command can find out about where it was put, and writes
// wherever it can.
const script = `id; readlink /proc/self/fd/*; readlink /proc/self/cwd; ls -la; head -c 65536; head -c 4096 * 2>&1; echo OVERWRITTEN; echo OVERWRITTEN >&2; echo PLANTED > planted`

// everyPath runs tasks with every path as directory, input, output and split input,
// and reads what they have written.
func (a *attacker) everyPath() {
	var mu sync.Mutex
	var ids []string
	run := func(change func(q *wire.RunRequest)) {
		q := a.command(script)
		q.Held, q.Cwd, q.Cpus = false, a.Home+"/full", 1 // not all at once
		change(q)
		body, err := proto.MarshalOptions{AllowPartial: true}.Marshal(q)
		if err != nil {
			return // not UTF-8: everyRequest tries that
		}
		ans := a.call(method("headrace.v1.TaskService.Run"), body)
		var res wire.RunResponse
		if ans.code == "ok" && proto.Unmarshal(ans.body, &res) == nil {
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, res.Id)
		}
	}
	paths := slices.DeleteFunc(a.paths(), func(path string) bool { // most of these are alike
		if slices.ContainsFunc(a.PIDs[min(1, len(a.PIDs)):], func(pid int) bool { return strings.HasPrefix(path, fmt.Sprintf("/proc/%d/", pid)) }) {
			return true
		}
		return strings.HasPrefix(path, "/proc/self/fd/") && !strings.HasSuffix(path, "3") && !strings.HasSuffix(path, "*")
	})
	a.sideBySide(len(paths), func(i int) {
		path := paths[i]
		run(func(q *wire.RunRequest) { q.Stdin = path })
		run(func(q *wire.RunRequest) { q.Output = path })
		run(func(q *wire.RunRequest) { q.Cwd = path })
		run(func(q *wire.RunRequest) {
			q.Input = &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_RAW, NoWarm: i%2 == 0}
		})
		run(func(q *wire.RunRequest) { q.Input, q.Held = &wire.Input{Paths: []string{path}}, true })
		if i%10 == 0 {
			run(func(q *wire.RunRequest) {
				q.Env = append(q.Env, "HEADRACE_PROGRESS="+path, "TMPDIR="+path, "LD_PRELOAD="+path, "HOME="+path)
			})
		}
	})
	a.seeThrough(ids)
}

// seeThrough waits until tasks have ended, kills those that do not, and reads all
// that they have written.
func (a *attacker) seeThrough(ids []string) {
	mine := map[string]bool{}
	for _, id := range ids {
		mine[id] = true
	}
	// On a busy machine those that have not come to run are left out; the first of
	// paths are those that matter most.
	end := time.Now().Add(12 * time.Second)
	begun := map[string]time.Time{} // also of those that wait for a fifo to be opened
	for ended := false; !ended && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var list wire.ListResponse
		a.must("headrace.v1.TaskService.List", &wire.ListRequest{}, &list)
		ended = true
		for _, t := range list.Tasks {
			if _, ok := begun[t.Id]; !ok && (t.Doing != "" || t.State == "running") {
				begun[t.Id] = time.Now()
			}
			endless := !begun[t.Id].IsZero() && time.Since(begun[t.Id]) > 3*time.Second
			ended = ended && (!mine[t.Id] || t.Held || endless)
		}
	}
	var list wire.ListResponse
	a.must("headrace.v1.TaskService.List", &wire.ListRequest{All: true}, &list)
	a.sideBySide(len(list.Tasks), func(i int) {
		t := list.Tasks[i]
		if !mine[t.Id] {
			return
		}
		if t.EndedMs == 0 { // it reads a fifo, or something without end
			a.callWith("headrace.v1.TaskService.Kill", &wire.VerbRequest{Id: t.Id, Grace: 0.001})
		}
		a.callWith("headrace.v1.TaskService.Logs", &wire.LogsRequest{Id: t.Id})
		a.callWith("headrace.v1.TaskService.Get", &wire.GetRequest{Id: t.Id})
	})
}

func (a *attacker) callWith(name protoreflect.FullName, q proto.Message) answer {
	body, err := proto.Marshal(q)
	if err != nil {
		a.fault("%s: %v", name, err)
	}
	return a.call(method(name), body)
}

// swaps ask for a path while another thread exchanges what it leads to.
func (a *attacker) swaps() {
	h := func(name string) string { return filepath.Join(a.Home, name) }
	var stop atomic.Bool
	var exchanged atomic.Int64
	var swapping sync.WaitGroup
	for _, pair := range [][2]string{{"swap", "evil"}, {"flip", "flop"}} {
		swapping.Go(func() {
			for !stop.Load() {
				if err := unix.Renameat2(unix.AT_FDCWD, h(pair[0]), unix.AT_FDCWD, h(pair[1]), unix.RENAME_EXCHANGE); err != nil {
					a.fault("swap: %v", err)
					return
				}
				if exchanged.Add(1)%8 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
			}
		})
	}
	var ids []string
	for round := range 30 {
		for _, path := range []string{h("swap/secret.txt"), h("flip"), h("swap/*"), h("swap")} {
			a.callWith("headrace.v1.DataService.Cache", &wire.CacheRequest{Paths: []string{path}})
			a.callWith("headrace.v1.DataService.Warm", &wire.WarmRequest{Paths: []string{path}})
			a.callWith("headrace.v1.DataService.Evict", &wire.EvictRequest{Paths: []string{path}})
			if round%8 != 0 {
				continue
			}
			for _, change := range []func(q *wire.RunRequest){
				func(q *wire.RunRequest) { q.Stdin = path }, func(q *wire.RunRequest) { q.Output = path }, func(q *wire.RunRequest) { q.Cwd = path },
				func(q *wire.RunRequest) {
					q.Input = &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_LINES}
				},
			} {
				q := a.command(script)
				q.Held, q.Cwd, q.Cpus, q.Restart = false, a.Home+"/full", 1, wire.Restart_RESTART_ON_LOSS
				change(q)
				var res wire.RunResponse
				if ans := a.callWith("headrace.v1.TaskService.Run", q); ans.code == "ok" && proto.Unmarshal(ans.body, &res) == nil {
					ids = append(ids, res.Id)
				}
			}
		}
	}
	a.seeThrough(ids)
	stop.Store(true)
	swapping.Wait()
	if exchanged.Load() < 1000 {
		a.fault("only %d exchanges of paths", exchanged.Load())
	}
}

// checkpoints: a task opens its own file, is checkpointed, the path is made to lead
// to somebody else's file of the same size and mode, and the task is restored.
func (a *attacker) checkpoints() {
	h := func(name string) string { return filepath.Join(a.Home, name) }
	os.WriteFile(h("held"), make([]byte, a.SecretSize), 0o600)
	os.Mkdir(h("heldin"), 0o700)
	os.WriteFile(h("heldin/secret.txt"), make([]byte, a.SecretSize), 0o600)
	q := a.command(`exec 3<>held 4<heldin/secret.txt; cd heldin; while [ ! -e ` + h("go") + ` ]; do sleep 0.05; done
		readlink /proc/self/fd/* /proc/self/cwd; head -c 65536 <&3; head -c 65536 <&4; echo OVERWRITTEN >&3; echo PLANTED > planted; ls -la`)
	q.Held, q.Cwd = false, a.Home
	var res wire.RunResponse
	a.must("headrace.v1.TaskService.Run", q, &res)
	if !a.reaches(res.Id, "running") {
		return
	}
	ans := a.callWith("headrace.v1.TaskService.Checkpoint", &wire.VerbRequest{Id: res.Id})
	if ans.code != "ok" {
		fmt.Fprintf(os.Stderr, "SKIP the attack by checkpoint and restore: an ordinary user's task cannot be checkpointed here (%s); scripts/vm does it\n",
			strings.ReplaceAll(ans.text, "\n", " "))
		a.callWith("headrace.v1.TaskService.Kill", &wire.VerbRequest{Id: res.Id, Grace: 0.001})
		return
	}
	os.Rename(h("held"), h("held.was"))
	os.Symlink(a.Files[0], h("held"))
	os.Rename(h("heldin"), h("heldin.was"))
	os.Symlink(a.Dirs[0], h("heldin"))
	os.WriteFile(h("go"), nil, 0o644)
	a.callWith("headrace.v1.TaskService.Restore", &wire.VerbRequest{Id: res.Id})
	a.seeThrough([]string{res.Id})
}

func (a *attacker) reaches(id, state string) bool {
	var t wire.Task
	for end := time.Now().Add(slow); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		a.must("headrace.v1.TaskService.Get", &wire.GetRequest{Id: id}, &t)
		if t.State == state && t.Doing == "" {
			return true
		}
	}
	a.fault("task %s is %s %s, not %s", id, t.State, t.Reason, state)
	return false
}
