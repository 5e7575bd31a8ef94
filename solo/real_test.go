package solo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/solo/journal"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// machine is the real thing: a daemon process, shims, processes.
type machine struct {
	*bed
	flags  []string // of the daemon, beside those that all have
	criu   string   // empty: there is none
	policy policy.Name
	nofile int // how many descriptors it may have; 0: as many as this process
	uid    int
	cmd    *exec.Cmd
	died   chan struct{}
	image  bool          // CRIU is there
	begun  time.Duration // after boot; none of its tasks is older
}

func newMachine(t *testing.T, pol policy.Name) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes")
	}
	dir, err := os.MkdirTemp("", "hr-real-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{begun: linux.Clock(), bed: &bed{t: t, world: newWorld(dir), cfg: Config{StateDir: dir}}, policy: pol}
	if found, err := criu.Find(); err == nil && os.Geteuid() == 0 {
		m.criu, m.image = found.Path, true
	}
	t.Cleanup(func() {
		m.clear()
		os.RemoveAll(dir)
	})
	return m
}

// command returns that of the daemon, the program as it is built: what would find races in it would tell
// nobody, and it is started hundreds of times.
func (m *machine) command() *exec.Cmd {
	m.t.Helper()
	args := append([]string{testkit.Headrace(m.t), "solo", "--config=", "--state-dir", m.cfg.StateDir, "--slots", "1",
		"--policy", string(m.policy), "--min-run", "0s"}, m.flags...)
	if m.criu != "" {
		args = append(args, "--criu", m.criu)
	}
	if m.nofile > 0 {
		args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, m.nofile)}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

// clear ends everything that is left of the test.
func (m *machine) clear() {
	if m.cmd != nil {
		m.kill9() // whatever state it is in
	}
	m.launch()
	res, err := m.tasks.List(m.ctx(), &wire.ListRequest{})
	if err != nil {
		m.t.Error("cleaning up:", err)
	}
	for _, task := range res.GetTasks() {
		_, err := m.tasks.Kill(m.ctx(), &wire.VerbRequest{Id: task.Id, Grace: 0.001})
		if now, _ := m.tasks.Get(m.ctx(), &wire.GetRequest{Id: task.Id}); err != nil && now.GetEndedMs() == 0 { // else it ended by itself meanwhile
			m.t.Error("cleaning up:", err)
		}
	}
	m.cmd.Process.Signal(syscall.SIGTERM)
	m.untilDead()
}

// launch starts the daemon and waits until it answers, or has died at a crash
// point.
func (m *machine) launch(env ...string) {
	m.t.Helper()
	cmd := m.command()
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = "/"
	log := filepath.Join(os.TempDir(), filepath.Base(m.cfg.StateDir)+".log")
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	m.t.Cleanup(func() {
		if b, err := os.ReadFile(log); err == nil && m.t.Failed() {
			m.t.Logf("the daemon said:\n%s", b)
		}
		os.Remove(log)
	})
	cmd.Stderr = f
	if m.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(m.uid), Gid: uint32(m.uid)}}
	}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	died := make(chan struct{})
	go func() {
		cmd.Wait()
		close(died)
	}()
	m.cmd, m.died = cmd, died
	client := wire.NewHTTPClient(wire.SocketPath(m.cfg.StateDir))
	m.tasks = wireconnect.NewTaskServiceClient(client, wire.BaseURL)
	m.node = wireconnect.NewNodeServiceClient(client, wire.BaseURL)
	m.data = wireconnect.NewDataServiceClient(client, wire.BaseURL)
	for deadline := time.Now().Add(patience); ; {
		info, err := m.node.Info(m.ctx(), &wire.InfoRequest{})
		if err == nil && int(info.Pid) == cmd.Process.Pid {
			return
		}
		select {
		case <-died:
			if len(env) > 0 {
				return
			}
			text, _ := os.ReadFile(log)
			m.t.Fatalf("the daemon has died: %s", text)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("the daemon does not answer: %v", err)
		}
	}
}

// exitAtOnce has a process that the race detector watches not sleep a second at its end.
const exitAtOnce = "GORACE=atexit_sleep_ms=0"

// kill9 kills the daemon.
func (m *machine) kill9() {
	m.cmd.Process.Kill() // fails if it is dead already
	<-m.died
	m.cmd = nil
}

// untilDead waits for the end of a daemon that dies by itself.
func (m *machine) untilDead() {
	m.t.Helper()
	select {
	case <-m.died:
	case <-time.After(patience):
		m.kill9()
		m.t.Fatal("the daemon did not end by itself")
	}
}

// counter returns a command that counts to n, one line in about 10 ms.
func counter(n int) func(*wire.RunRequest) {
	return func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); sleep 0.01; done", n)}
		q.Env = []string{"PATH=/usr/bin:/bin"}
	}
}

// gated returns a command that counts to n, and after half of it waits until the test, which may be slow to do what it is about, says
// goOn.
func (m *machine) gated(n int) (change func(*wire.RunRequest), goOn func()) {
	gate := filepath.Join(m.t.TempDir(), "gate")
	change = func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); sleep 0.01; while [ $i = %d -a ! -e %s ]; do sleep 0.01; done; done", n, n/2, gate)}
		q.Env = []string{"PATH=/usr/bin:/bin"}
	}
	return change, func() { m.write(gate, "") }
}

func (m *machine) wantCount(id headrace.TaskID, n int) {
	m.t.Helper()
	var want strings.Builder
	for i := range n {
		fmt.Fprintln(&want, i)
	}
	got, err := allLogs(m.ctx(), m.tasks, string(id))
	if err != nil || got != strings.TrimSpace(want.String()) {
		m.t.Errorf("task %s wrote %q (%v), want 0 to %d once", id, got, err, n-1)
	}
}

func TestRealPreemption(t *testing.T) {
	for _, c := range []struct {
		policy policy.Name
		shows  string
	}{
		{policy.Suspend, "suspended"}, {policy.Checkpoint, "checkpointed"}, {policy.Kill, "killing"}, {policy.Cost, ""},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, c.policy)
			if c.policy == policy.Checkpoint && !m.image {
				t.Skip("without root or CRIU there are no checkpoints")
			}
			m.launch()
			gated, goOn := m.gated(60)
			low := m.run(headrace.Low, gated)
			m.awaitState(low, headrace.Running)
			high := m.run(headrace.High, counter(10))
			m.awaitState(high, headrace.Done)
			goOn()
			done := m.awaitState(low, headrace.Done)
			m.wantCount(high, 10)
			m.wantCount(low, 60)
			var shown []string
			for _, e := range done.History {
				shown = append(shown, e.State)
			}
			if !strings.Contains(strings.Join(shown, " "), c.shows) {
				t.Errorf("history %v, want %s in it", shown, c.shows)
			}
		})
	}
}

// TestRealDaemonKilled kills the daemon with a real task in each state.
func TestRealDaemonKilled(t *testing.T) {
	for _, state := range []headrace.TaskState{headrace.Pending, headrace.Running, headrace.Suspended, headrace.Checkpointed} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, policy.Wait)
			if state == headrace.Checkpointed && !m.image {
				t.Skip("without root or CRIU there are no checkpoints")
			}
			m.launch()
			gated, goOn := m.gated(80)
			id := m.run(headrace.Normal, never, gated, func(q *wire.RunRequest) { q.Held = state == headrace.Pending })
			q := &wire.VerbRequest{Id: string(id)}
			var err error
			if state != headrace.Pending {
				m.awaitState(id, headrace.Running)
			}
			switch state {
			case headrace.Suspended:
				_, err = m.tasks.Suspend(m.ctx(), q)
			case headrace.Checkpointed:
				_, err = m.tasks.Checkpoint(m.ctx(), q)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.kill9()
			m.launch()
			got := m.get(id)
			if got.State != state.String() {
				t.Fatalf("after the restart it is %s", got)
			}
			if state != headrace.Running {
				if _, err := m.tasks.Resume(m.ctx(), q); err != nil {
					t.Fatal(err)
				}
			}
			goOn()
			m.awaitState(id, headrace.Done)
			m.wantCount(id, 80)
		})
	}
}

// TestRealReboot: an orderly reboot of the machine, in which all processes get a SIGTERM, is
// the end of no task: it goes on from its last checkpoint, or begins again.
func TestRealReboot(t *testing.T) {
	for _, saved := range []bool{false, true} {
		t.Run(fmt.Sprintf("checkpoint %v", saved), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, policy.Wait)
			if saved && !m.image {
				t.Skip("without root or CRIU there are no checkpoints")
			}
			m.launch()
			gate, begun := filepath.Join(m.cfg.StateDir, "gate"), filepath.Join(m.cfg.StateDir, "begun")
			id := m.run(headrace.Normal, func(q *wire.RunRequest) {
				q.Argv = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; echo >>" + begun + "; while [ ! -e " + gate + " ]; do sleep 0.01; done"}
				q.Restart = wire.Restart_RESTART_ON_LOSS
			})
			m.awaitState(id, headrace.Running)
			m.awaitFile(begun)
			if saved {
				q := &wire.VerbRequest{Id: string(id)}
				if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
					t.Fatal(err)
				}
				if _, err := m.tasks.Restore(m.ctx(), q); err != nil {
					t.Fatal(err)
				}
				m.awaitState(id, headrace.Running)
			}
			m.cmd.Process.Signal(syscall.SIGTERM)
			m.untilDead()
			dir := filepath.Join(m.cfg.StateDir, "tasks", string(id))
			if n := testkit.GoDown(t, dir); n < 3 {
				t.Fatalf("the task has %d processes, want its supervisor, init and the command", n)
			}
			testkit.Await(t, "the end of all processes", func() bool { return testkit.GoDown(t, dir) == 0 })
			m.inAnotherBoot()
			m.launch()
			m.awaitState(id, headrace.Running)
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			m.awaitState(id, headrace.Done)
			want := 2
			if saved {
				want = 1
			}
			if text, err := os.ReadFile(begun); len(text) != want || err != nil {
				t.Errorf("it has begun %d times (%v), want %d", len(text), err, want)
			}
		})
	}
}

// inAnotherBoot has the daemon that was here last have been in another boot of the machine.
func (m *machine) inAnotherBoot() {
	m.t.Helper()
	file, err := journal.Open(m.cfg.StateDir)
	if err != nil {
		m.t.Fatal(err)
	}
	defer file.Close()
	c, err := file.Load()
	if err == nil {
		c.Meta.Boot = "another"
		err = file.Commit(journal.Batch{Meta: &c.Meta})
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestRealRecordsMovedAway: a task that comes after the records were moved away has not the id
// of an earlier one, nor what that has written.
func TestRealRecordsMovedAway(t *testing.T) {
	m := newMachine(t, policy.Wait)
	m.launch()
	write := func(text string) (headrace.TaskID, string) {
		id := m.run(headrace.Normal, func(q *wire.RunRequest) { q.Argv = []string{"/bin/echo", text} })
		m.awaitState(id, headrace.Done)
		got, err := allLogs(m.ctx(), m.tasks, string(id))
		if err != nil {
			t.Fatal(err)
		}
		return id, got
	}
	first, _ := write("first")
	m.kill9()
	db := filepath.Join(m.cfg.StateDir, "state.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	m.launch()
	if id, got := write("second"); id == first || got != "second" {
		t.Errorf("after %s comes %s, whose log is %q", first, id, got)
	}
}

// TestRealEndWhileDown: a task that ends while there is no daemon is not run
// again.
func TestRealEndWhileDown(t *testing.T) {
	m := newMachine(t, policy.Wait)
	m.launch()
	gate, out := filepath.Join(m.cfg.StateDir, "gate"), filepath.Join(m.cfg.StateDir, "out")
	id := m.run(headrace.Normal, func(q *wire.RunRequest) {
		q.Argv, q.Output = []string{"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.01; done; echo ended; exit 3"}, out
	})
	m.awaitState(id, headrace.Running)
	m.kill9()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.awaitFile(filepath.Join(m.cfg.StateDir, "tasks", string(id), "exit.json")) // it ends without a daemon
	m.launch()
	if got := m.awaitState(id, headrace.Failed); got.ExitCode != 3 {
		t.Errorf("exit code %d, want 3", got.ExitCode)
	}
	if text, err := os.ReadFile(out); string(text) != "ended\n" {
		t.Errorf("it wrote %q, %v", text, err)
	}
}

// TestRealStartIsNotMadeTwice: the daemon dies before it has recorded that a command runs,
// and the supervisor after it.
func TestRealStartIsNotMadeTwice(t *testing.T) {
	for _, c := range []struct {
		point string
		want  headrace.TaskState
		lines string
	}{
		{"solo.op.after", headrace.Lost, "begun\n"},
		{"proc.launched", headrace.Done, "begun\n"}, // nobody had said start
	} {
		t.Run(c.point, func(t *testing.T) {
			m := newMachine(t, policy.Wait)
			gate, out := filepath.Join(m.cfg.StateDir, "gate"), filepath.Join(m.cfg.StateDir, "out")
			m.launch(crash.Env + "=" + c.point)
			id := m.run(headrace.Normal, held, never, func(q *wire.RunRequest) {
				q.Argv = []string{"/bin/sh", "-c", "echo begun >> " + out + "; : > " + out + ".written; while [ ! -e " + gate + " ]; do sleep 0.01; done"}
				q.Env = []string{"PATH=/usr/bin:/bin"}
			})
			m.tasks.Resume(m.ctx(), &wire.VerbRequest{Id: string(id)}) // there is no answer
			m.untilDead()
			if c.want == headrace.Lost {
				m.awaitFile(out + ".written")
				for _, dir := range m.supervisors(id) {
					pid, err := strconv.Atoi(filepath.Base(dir))
					if err != nil {
						t.Fatal(err)
					}
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
				m.untilNoSupervisor(id)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			m.launch()
			m.awaitState(id, c.want)
			if text, err := os.ReadFile(out); string(text) != c.lines {
				t.Errorf("it wrote %q, %v, want %q", text, err, c.lines)
			}
		})
	}
}

// TestRealCrashPoints ends the daemon at each of its first commits and
// operations while a task is preempted, and looks that both tasks do their work
// exactly once.
func TestRealCrashPoints(t *testing.T) {
	for pol, points := range map[policy.Name][]string{
		policy.Suspend:    {"solo.commit.after", "solo.op.before"},
		policy.Checkpoint: {"solo.commit.before", "solo.op.after"},
	} {
		for _, point := range points {
			for n := 1; n <= 8; n++ {
				t.Run(fmt.Sprintf("%s/%s:%d", pol, point, n), func(t *testing.T) {
					t.Parallel()
					m := newMachine(t, pol)
					if pol == policy.Checkpoint && !m.image {
						t.Skip("without root or CRIU there are no checkpoints")
					}
					m.launch(fmt.Sprintf("%s=%s:%d", crash.Env, point, n))
					low := m.submitThrough(headrace.Low, counter(40))
					m.untilRunning(low)
					high := m.submitThrough(headrace.High, counter(5))
					if high != "" {
						waitFor(m.ctx(), m.tasks, string(high))
					}
					m.kill9() // it may not have died yet, or have been started again
					m.launch()
					res, err := m.tasks.List(m.ctx(), &wire.ListRequest{All: true})
					if err != nil {
						t.Fatal(err)
					}
					ids := map[string]bool{string(low): low == "", string(high): high == ""}
					for _, task := range res.Tasks {
						ids[task.Id] = true
						m.awaitState(headrace.TaskID(task.Id), headrace.Done)
						m.wantCount(headrace.TaskID(task.Id), map[uint32]int{2: 40, 8: 5}[task.Priority])
					}
					for id, there := range ids {
						if !there {
							t.Errorf("task %s was accepted and is not there", id)
						}
					}
				})
			}
		}
	}
}

// submitThrough submits a task, or returns "" when the daemon dies meanwhile; it
// is started again then.
func (m *machine) submitThrough(p headrace.Priority, change func(*wire.RunRequest)) headrace.TaskID {
	q := &wire.RunRequest{Priority: uint32(p)}
	change(q)
	res, err := m.tasks.Run(m.ctx(), q)
	if err == nil {
		return headrace.TaskID(res.Id)
	}
	m.untilDead()
	m.launch()
	return ""
}

// untilRunning waits until a task runs or the daemon has died; it is started
// again then.
func (m *machine) untilRunning(id headrace.TaskID) {
	if id == "" {
		return
	}
	stream, err := m.tasks.Watch(m.ctx(), &wire.WatchRequest{Id: string(id)})
	if err == nil {
		defer stream.Close()
		for stream.Receive() {
			for _, task := range stream.Msg().Tasks {
				if task.State != "pending" {
					return
				}
			}
		}
	}
	m.untilDead()
	m.launch()
}

// TestRealOrdinaryUser: a daemon without root serves its own user, suspends, and
// says why it cannot checkpoint.
func TestRealOrdinaryUser(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Suspend)
	m.uid = 4003
	if err := os.Chown(m.cfg.StateDir, m.uid, m.uid); err != nil {
		t.Fatal(err)
	}
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	gate := filepath.Join(m.cfg.StateDir, "gate")
	id := asUser(t, 4003, socket, "run while [ ! -e "+gate+" ]; do sleep 0.01; done; id -u")[0]
	if got := asUser(t, 4004, socket, "list", "get "+id, "run id -u"); strings.Join(got, " ") != "permission_denied permission_denied permission_denied" {
		t.Errorf("another user got %v", got)
	}
	m.awaitState(headrace.TaskID(id), headrace.Running)
	got := asUser(t, 4003, socket, "suspend "+id, "checkpoint "+id, "resume "+id)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got = append(got, asUser(t, 4003, socket, "wait "+id, "logs "+id)...)
	if want := "ok failed_precondition ok done 4003"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestRealUsers: tasks run as whoever asked for them.
func TestRealUsers(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Wait)
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	ids := asUser(t, 4005, socket, "run id -u; id -g; id -G", "run cat "+m.cfg.StateDir+"/state.db >/dev/null; ls "+m.cfg.StateDir+"; ls "+m.cfg.StateDir+"/tasks; echo done",
		`run echo 0.5 > "$HEADRACE_PROGRESS_FILE" && echo wrote`)
	got := asUser(t, 4005, socket, "wait "+ids[0], "logs "+ids[0], "wait "+ids[1], "logs "+ids[1], "wait "+ids[2], "logs "+ids[2])
	text := strings.Join(got, "\n")
	if !strings.HasPrefix(text, "done\n4005\n4005\n4005\ndone\ndone\n") {
		t.Errorf("got %q", text)
	}
	if n := strings.Count(text, "ermission denied"); n != 3 {
		t.Errorf("%d things were denied, want 3: %q", n, text)
	}
	if !strings.HasSuffix(text, "done\nwrote") {
		t.Errorf("the progress file could not be written: %q", text)
	}
}
