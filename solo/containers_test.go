package solo

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/solo/request"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// hostBed is a bed that plays a NodeManager, and the agent of a cluster.
type hostBed struct {
	*bed
	host wireconnect.HostServiceClient
	// env is the environment of the processes that come.
	env []string
}

func newHostBed(t *testing.T) *hostBed {
	b := &hostBed{bed: newBed(t, policy.Cost)}
	b.start()
	return b
}

func (b *hostBed) start() {
	b.t.Helper()
	b.bed.start()
	b.host = hostClient(b.cfg.StateDir)
}

func hostClient(stateDir string) wireconnect.HostServiceClient {
	return wireconnect.NewHostServiceClient(wire.NewHTTPClient(wire.SocketPath(stateDir)), wire.BaseURL)
}

func announced(id string) *wire.PrepareRequest {
	return &wire.PrepareRequest{
		Id: id, Hosting: &wire.Hosting{Scheduler: "yarn", Application: "application_1", Queue: "root.low"},
		Name: "map 3", Cpus: 4, Memory: 1 << 30, Priority: 2,
	}
}

func (b *hostBed) prepare(id string) {
	b.t.Helper()
	r, err := b.host.Prepare(b.ctx(), announced(id))
	if err != nil {
		b.t.Fatal("prepare:", err)
	}
	want := "/headrace-shim attach -socket " + filepath.Join(b.cfg.StateDir, "attach.sock") + " -id " + id + " --"
	if got := strings.Join(r.Argv, " "); got != want {
		b.t.Errorf("argv %q, want %q", got, want)
	}
}

// arrive returns the process of a container that comes; it returns the daemon's answer.
func (b *hostBed) arrive(id string) string { return b.answerTo(b.knock(id, false)).Error }

// comeBack has the process of a container ask for another supervisor until it is told.
func (b *hostBed) comeBack(id headrace.TaskID) (refused string) {
	b.t.Helper()
	var r attach.Reply
	testkit.Await(b.t, "an answer", func() bool {
		r = b.answerTo(b.knock(string(id), true))
		return !r.Later
	})
	return r.Error
}

func (b *hostBed) answerTo(conn net.Conn) attach.Reply {
	b.t.Helper()
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) < 4 {
		b.t.Fatalf("answer %q, %v", answer, err)
	}
	var r attach.Reply
	if err := json.Unmarshal(answer[4:], &r); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// knock sends the request of a container's process, its first or for another supervisor.
func (b *hostBed) knock(id string, again bool) net.Conn {
	b.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(b.cfg.StateDir, "attach.sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { unix.Close(pair[0]) })
	defer unix.Close(pair[1])
	body, err := json.Marshal(attach.Request{ID: id, Again: again, Argv: []string{"work"}, Env: append([]string{}, b.env...), Cwd: "/", Umask: 0o22})
	if err != nil {
		b.t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix(frame, unix.UnixRights(pair[1]), nil); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// launch announces a container and has its process come.
func (b *hostBed) launch(id string) headrace.TaskID {
	b.t.Helper()
	b.prepare(id)
	if why := b.arrive(id); why != "" {
		b.t.Fatalf("container %s: %s", id, why)
	}
	return headrace.TaskID(id)
}

func (b *hostBed) order(id headrace.TaskID, verb string) error {
	return b.orderIn(b.ctx(), id, verb)
}

// orderIn asks for no longer than ctx.
func (b *hostBed) orderIn(ctx context.Context, id headrace.TaskID, verb string) error {
	return b.daemon.Host().Do(ctx, &wire.NodeOrder{Number: 1, Container: string(id), Command: wire.Command(wire.Command_value["COMMAND_"+strings.ToUpper(verb)]), Reason: "yarn wants it"})
}

func (b *hostBed) mustOrder(id headrace.TaskID, verb string) {
	b.t.Helper()
	if err := b.order(id, verb); err != nil {
		b.t.Fatalf("%s %s: %v", verb, id, err)
	}
}

func (b *hostBed) is(id headrace.TaskID, state headrace.TaskState) *wire.Task {
	b.t.Helper()
	t := b.get(id)
	if t.State != state.String() {
		b.t.Fatalf("container %s is %s (%s), want %s", id, t.State, t.Reason, state)
	}
	return t
}

const someContainer = "container_e17_1763700000000_0001_01_000002"

func TestHostedLife(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	task := b.is(id, headrace.Running)
	if h := task.Hosting; h == nil || h.Application != "application_1" || task.Job != "application_1" || task.Cpus != 4 {
		t.Errorf("%v", task)
	}
	b.mustOrder(id, "suspend")
	if task := b.is(id, headrace.Suspended); task.Held || task.Preemptions != 1 || task.Reason != "yarn wants it" {
		t.Errorf("suspended: %v", task)
	}
	b.mustOrder(id, "suspend") // it is so already
	b.mustOrder(id, "checkpoint")
	b.is(id, headrace.Checkpointed)
	b.mustOrder(id, "resume")
	b.is(id, headrace.Running)
	b.mustOrder(id, "resume")
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "resume")
	b.finish(id, 3)
	if task := b.awaitState(id, headrace.Failed); task.ExitCode != 3 {
		t.Errorf("ended: %v", task)
	}
	if err := b.order(id, "suspend"); err == nil {
		t.Error("an ended container was suspended")
	}
}

// The daemon's own policy leaves containers alone, and gives their processors to
// nobody's disadvantage.
func TestHostedAreNotScheduledHere(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	local := b.run(headrace.Production)
	b.awaitState(local, headrace.Running)
	b.is(id, headrace.Running)
	b.mustOrder(id, "suspend")
	b.finish(local, 0)
	b.awaitState(local, headrace.Done)
	second := b.run(headrace.Free)
	b.awaitState(second, headrace.Running)
	b.is(id, headrace.Suspended) // nobody but its scheduler brings it back
	b.finish(second, 0)
}

func TestHostedHeldByAUser(t *testing.T) {
	b := newHostBed(t)
	b.cfg.Cluster = farCluster{}
	b.shutdown()
	b.start()
	id := b.launch(someContainer)
	verb := &wire.VerbRequest{Id: string(id)}
	if _, err := b.tasks.Suspend(b.ctx(), verb); err != nil {
		t.Fatal(err)
	}
	if task := b.is(id, headrace.Suspended); !task.Held || !task.KeepsRoom {
		t.Errorf("suspended: %v", task)
	}
	if err := b.order(id, "resume"); err == nil || !strings.Contains(err.Error(), "held by a user") {
		t.Errorf("resumed by its scheduler while held: %v", err)
	}
	if _, err := b.tasks.Resume(b.ctx(), verb); err != nil { // nobody else has its room
		t.Fatal(err)
	}
	b.is(id, headrace.Running)
	for _, leave := range []func(context.Context, *wire.VerbRequest) (*wire.Task, error){b.tasks.Suspend, b.tasks.Checkpoint} {
		if task, err := leave(b.ctx(), verb); err != nil {
			t.Fatal(err)
		} else if task.KeepsRoom {
			b.mustOrder(id, "suspend") // now others may have it
		}
		b.shutdown()
		b.start()
		if task := b.get(id); task.KeepsRoom || !task.Held {
			t.Errorf("others may have its room: %v", task)
		}
		if _, err := b.tasks.Resume(b.ctx(), verb); err != nil {
			t.Fatal(err)
		}
		if task := b.get(id); task.Held || !strings.Contains(task.Reason, "yarn") || task.State == headrace.Running.String() {
			t.Errorf("released: %v", task)
		}
		b.mustOrder(id, "resume")
		b.is(id, headrace.Running)
	}
}

// Root, who insists, has it go on at once, whatever its scheduler says, and whoever holds it.
func TestHostedForced(t *testing.T) {
	b := newHostBed(t)
	b.cfg.Cluster = farCluster{}
	b.shutdown()
	b.start()
	id := b.launch(someContainer)
	b.mustOrder(id, "suspend")
	if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id), Force: true}); err != nil {
		t.Fatal(err)
	}
	b.is(id, headrace.Running)
	b.mustOrder(id, "suspend")
	owner := &call{command: headrace.CommandResume, id: id, by: serve.Viewer{UID: b.daemon.host.s.board.List(serve.Everything, false)[0].Record.UID}, force: true}
	if _, err := b.daemon.host.s.loop.calls.ask(b.ctx(), owner); !errors.Is(err, serve.ErrDenied) {
		t.Errorf("its user insists: %v", err)
	}
	b.is(id, headrace.Suspended)
	b.mustOrder(id, "resume")
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	if err := b.daemon.Host().Do(b.ctx(), &wire.NodeOrder{Container: string(id), Command: wire.Command_COMMAND_RESUME, Force: true}); err != nil {
		t.Fatal(err)
	}
	if task := b.is(id, headrace.Running); task.Held {
		t.Error("it runs and is held")
	}
}

// Without a manager there is nobody else who would bring it back.
func TestHostedReleasedWithoutManager(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	verb := &wire.VerbRequest{Id: string(id)}
	for _, leave := range []func(context.Context, *wire.VerbRequest) (*wire.Task, error){b.tasks.Suspend, b.tasks.Checkpoint} {
		if _, err := leave(b.ctx(), verb); err != nil {
			t.Fatal(err)
		}
		if _, err := b.tasks.Resume(b.ctx(), verb); err != nil {
			t.Fatal(err)
		}
		b.is(id, headrace.Running)
	}
}

func TestHostedRefused(t *testing.T) {
	b := newHostBed(t)
	if why := b.arrive("container_nobody_knows"); !strings.Contains(why, "not been announced") {
		t.Errorf("unannounced: %q", why)
	}
	id := b.launch(someContainer)
	if why := b.arrive(someContainer); !strings.Contains(why, "not been announced") {
		t.Errorf("an announcement was used twice: %q", why)
	}
	b.prepare(someContainer)
	if why := b.arrive(someContainer); !strings.Contains(why, "runs already") {
		t.Errorf("a second process: %q", why)
	}
	b.is(id, headrace.Running)
	for _, bad := range []func(*wire.PrepareRequest){
		func(q *wire.PrepareRequest) { q.Id = "t7" },
		func(q *wire.PrepareRequest) { q.Id = "../x" },
		func(q *wire.PrepareRequest) { q.Id = "" },
		func(q *wire.PrepareRequest) { q.Id = strings.Repeat("x", 200) },
		func(q *wire.PrepareRequest) { q.Hosting = nil },
		func(q *wire.PrepareRequest) { q.Cpus = -1 },
		func(q *wire.PrepareRequest) { q.Priority = 12 },
		func(q *wire.PrepareRequest) { q.User = "no such user here" },
		func(q *wire.PrepareRequest) { q.Hosting.Queue = "a\nb" },
	} {
		q := announced("container_x")
		bad(q)
		if _, err := b.host.Prepare(b.ctx(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", q, err)
		}
	}
	local := b.run(headrace.Low)
	b.awaitState(local, headrace.Running)
	if err := b.order(local, "suspend"); err == nil {
		t.Error("a local task took an order")
	}
	if err := b.order(id, "dance"); err == nil {
		t.Error("an unknown order was taken")
	}
	if err := b.order("container_y", "suspend"); err == nil {
		t.Error("an unknown container took an order")
	}
}

// An announcement is for the processes of one account, whoever made it.
func TestHostedOwner(t *testing.T) {
	other := serve.Caller{UID: 54321, GID: 54321} // an operator
	q := announced("container_owned")
	q.User = "root"
	mine, err := request.Hosted(q, other)
	if err != nil || os.Geteuid() == 0 && mine.Record.UID != 0 {
		t.Fatalf("announced for root: %v, %v", mine, err)
	}
	q.User = ""
	theirs, err := request.Hosted(q, other)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: every container belongs to the daemon's user")
	}
	if theirs.Record.UID != other.UID {
		t.Errorf("announced for themselves: user %d", theirs.Record.UID)
	}
	a := newAnnouncements(systemClock{})
	if err := a.add(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := a.expected(headrace.TaskID(q.Id), other.UID); !errors.Is(err, serve.ErrDenied) {
		t.Errorf("a stranger's process: %v", err)
	}
}

// A container that is launched again has the same name.
func TestHostedAgain(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "resume")
	b.finish(id, 1)
	b.awaitState(id, headrace.Failed)
	b.launch(someContainer)
	b.is(id, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	b.shutdown()
	b.start()
	all, err := b.tasks.List(b.ctx(), &wire.ListRequest{All: true})
	if err != nil || len(all.Tasks) != 1 {
		t.Errorf("records of one container: %v, %v", all, err)
	}
}

// awaitNoImages waits until no checkpoint of a task is left.
func (b *hostBed) awaitNoImages(id headrace.TaskID) {
	b.t.Helper()
	testkit.Await(b.t, fmt.Sprintf("the end of all checkpoints of %s", id), func() bool {
		n := 0
		b.world.with(id, func(x *thing) {
			for _, list := range x.images {
				n += len(list)
			}
		})
		return n == 0
	})
}

// abandon is the death of the process that a container was started for.
func (b *hostBed) abandon(id headrace.TaskID) {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	b.world.end(b.world.thing(id), proc.Exit{Code: 137, Signal: 9, Abandoned: true})
}

func TestHostedKilledByItsScheduler(t *testing.T) {
	for _, verb := range []string{"", "suspend", "checkpoint"} {
		b := newHostBed(t)
		id := b.launch(someContainer)
		if verb != "" {
			b.mustOrder(id, verb)
		}
		b.abandon(id)
		if task := b.awaitState(id, headrace.Killed); !strings.Contains(task.Reason, "ended by yarn") {
			t.Errorf("after %q: %v", verb, task)
		}
		b.awaitNoImages(id)
	}
}

// In whatever state a container is, a daemon that dies finds it again; a container
// whose supervisor is gone has ended.
func TestHostedRecovery(t *testing.T) {
	states := map[string]headrace.TaskState{"": headrace.Running, "suspend": headrace.Suspended, "checkpoint": headrace.Checkpointed}
	for verb, state := range states {
		for _, survives := range []bool{true, false} {
			b := newHostBed(t)
			id := b.launch(someContainer)
			if verb != "" {
				b.mustOrder(id, verb)
			}
			b.crash()
			if !survives {
				b.world.vanish(id)
			}
			b.start()
			if !survives {
				b.awaitState(id, headrace.Lost)
				b.awaitNoImages(id)
				continue
			}
			b.awaitState(id, state)
			b.mustOrder(id, "resume")
			b.is(id, headrace.Running)
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		}
	}
}

// TestHostedCommittedAndNotAnswered: the supervisor of a container dies when its checkpoint is durable and before it
// has said so, or when it is checkpointed, with the daemon or without. Its process gets another one, and it goes on.
func TestHostedCommittedAndNotAnswered(t *testing.T) {
	lost := func(w *world, id headrace.TaskID) { // its init has died
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(w.thing(id), proc.Exit{Code: 137, Signal: 9, Lost: true})
	}
	vanish := func(w *world, id headrace.TaskID) { w.vanish(id) }
	for name, c := range map[string]struct {
		dies                 func(*world, headrace.TaskID)
		crash, answered, not bool
	}{
		"the supervisor":                        {dies: vanish},
		"init":                                  {dies: lost},
		"the supervisor, and the daemon":        {dies: vanish, crash: true},
		"init, and the daemon":                  {dies: lost, crash: true},
		"when it had answered":                  {dies: vanish, answered: true},
		"when it had answered, and the daemon":  {dies: vanish, answered: true, crash: true},
		"its process too":                       {dies: vanish, not: true},
		"its process too, and the daemon":       {dies: vanish, not: true, crash: true},
		"its process too, when it had answered": {dies: vanish, not: true, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHostBed(t)
			b.shutdown()
			if b.comeBackTime = patience; c.not {
				b.comeBackTime = 0
			}
			dying := &conn{world: b.world}
			dying.after = func(op string, id headrace.TaskID) error {
				if op != "checkpoint" || c.answered {
					return nil
				}
				c.dies(b.world, id)
				if c.crash {
					dying.cut()
				}
				return fmt.Errorf("checkpoint task %s: %w", id, proc.ErrGone)
			}
			if err := b.startWith(dying); err != nil {
				t.Fatal(err)
			}
			id := b.launch(someContainer)
			ctx, cancel := context.WithCancel(t.Context())
			go b.daemon.Host().Do(ctx, &wire.NodeOrder{Number: 1, Container: string(id), Command: wire.Command_COMMAND_CHECKPOINT})
			if c.crash && !c.answered {
				testkit.Await(t, "the end of the daemon", dying.dead)
			} else if c.answered || !c.not {
				b.awaitState(id, headrace.Checkpointed)
			}
			cancel()
			if c.crash {
				b.crash()
			}
			if c.answered {
				c.dies(b.world, id)
			}
			if c.crash {
				b.start()
			}
			if c.not {
				b.awaitState(id, headrace.Lost)
				b.awaitNoImages(id)
				if b.comeBack(id) == "" {
					t.Error("a process got a supervisor for what is lost")
				}
				return
			}
			if why := b.comeBack(id); why != "" {
				t.Fatal(why)
			}
			b.is(id, headrace.Checkpointed)
			if b.comeBack("container_of_nobody") == "" {
				t.Error("a process got a supervisor for a container that is not there")
			}
			b.mustOrder(id, "resume")
			b.is(id, headrace.Running)
			b.world.with(id, func(x *thing) {
				if x.starts != 1 || x.restores != 1 {
					t.Errorf("it was started %d times and restored %d times", x.starts, x.restores)
				}
			})
			b.finish(id, 0)
			b.awaitState(id, headrace.Done)
		})
	}
}

// TestSupervisorKilledDuringRestore: the supervisor of a container is killed while that is restored, with the daemon or
// without. Nothing has run: its process gets another one, and it goes on.
func TestSupervisorKilledDuringRestore(t *testing.T) {
	for _, crash := range []bool{false, true} {
		b := newHostBed(t)
		b.shutdown()
		b.comeBackTime = patience
		var once atomic.Bool
		dying := &conn{world: b.world}
		asks, hangUp := context.WithCancel(b.ctx())
		dying.before = func(op string, id headrace.TaskID) error {
			if op != "restore" || once.Swap(true) {
				return nil
			}
			b.world.vanish(id)
			if crash {
				dying.cut()
				hangUp() // a daemon that has died answers nobody
			}
			return fmt.Errorf("restore task %s: %w", id, proc.ErrGone)
		}
		if err := b.startWith(dying); err != nil {
			t.Fatal(err)
		}
		id := b.launch(someContainer)
		b.mustOrder(id, "checkpoint")
		if err := b.orderIn(asks, id, "resume"); err == nil {
			t.Error("it was restored by a supervisor that is not there")
		}
		hangUp()
		if crash {
			b.crash()
			b.start()
		}
		if why := b.comeBack(id); why != "" {
			t.Fatal(why)
		}
		b.is(id, headrace.Checkpointed)
		b.mustOrder(id, "resume")
		b.is(id, headrace.Running)
		b.finish(id, 0)
		b.awaitState(id, headrace.Done)
		b.shutdown()
	}
}

// TestCallerHasGone: whoever hands on the connection of a container's process and ends has its place, and cgroups, taken by
// whoever gets its number.
func TestCallerHasGone(t *testing.T) {
	b := newHostBed(t)
	b.prepare(someContainer)
	body, err := json.Marshal(attach.Request{ID: someContainer, Argv: []string{"work"}, Env: []string{}, Cwd: "/", Umask: 0o22})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", `
import fcntl, os, socket, struct, sys, termios, time
body, caller = sys.argv[2].encode(), os.getpid()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
line, ours = socket.socketpair()
socket.send_fds(s, [struct.pack(">I", len(body))], [line.fileno()])
while struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]:  # it is read after the caller was looked at
    time.sleep(0.001)
if os.fork():
    os._exit(0)
while os.path.exists("/proc/%d" % caller):
    time.sleep(0.001)
s.sendall(body)
print(s.makefile("rb").read()[4:].decode())`, filepath.Join(b.cfg.StateDir, "attach.sock"), string(body))
	said, err := cmd.Output()
	if err != nil || !strings.Contains(string(said), "calling process") {
		t.Errorf("it is answered %q, %v", said, err)
	}
	b.world.with(someContainer, func(x *thing) {
		if x.starts > 0 {
			t.Error("it was started")
		}
	})
}

func TestHostedAfterReboot(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.crash()
	b.world.reboot()
	b.boot = "boot-2"
	b.start()
	if task := b.awaitState(id, headrace.Lost); !strings.Contains(task.Reason, "restarted") {
		t.Errorf("%v", task)
	}
}

// An order fails, and the container is as it was: its scheduler learns both.
func TestHostedOrderFails(t *testing.T) {
	b := newHostBed(t)
	var broken atomic.Bool
	b.shutdown()
	b.conn = &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
		if broken.Load() && op == "resume" {
			return os.ErrPermission
		}
		return nil
	}}
	if err := b.startWith(b.conn); err != nil {
		t.Fatal(err)
	}
	id := b.launch(someContainer)
	b.world.with(id, func(x *thing) { x.noDump = os.ErrPermission })
	if err := b.order(id, "checkpoint"); err == nil {
		t.Error("no error")
	}
	if task := b.is(id, headrace.Running); task.NoCheckpoint == "" {
		t.Errorf("%v", task)
	}
	b.world.with(id, func(x *thing) { x.noDump = nil })
	b.mustOrder(id, "suspend")
	broken.Store(true)
	if err := b.order(id, "resume"); err == nil {
		t.Error("no error")
	}
	broken.Store(false)
	b.is(id, headrace.Suspended)
	b.mustOrder(id, "resume")
}

func TestHostFacts(t *testing.T) {
	b := newHostBed(t)
	local := b.run(headrace.Low)
	b.awaitState(local, headrace.Running)
	host := b.daemon.Host()
	id := b.launch(someContainer)
	awaitNews(t, host)
	info, tasks := host.Facts()
	if len(tasks) != 1 || tasks[0].Id != someContainer || tasks[0].SinceMs == 0 || len(info.Stores) != 1 || info.Stores[0].DumpOverhead <= 0 {
		t.Errorf("%v %v", info, tasks)
	}
	b.mustOrder(id, "suspend")
	awaitNews(t, host)
	b.mustOrder(id, "resume")
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	if _, tasks := host.Facts(); len(tasks) != 1 || tasks[0].State != "done" {
		t.Errorf("after its end: %v", tasks)
	}
}

// TestHostedPromises: which end a container has told, by its manager's word, is told to the next manager also by the next
// daemon; one that is hardly earlier is not written down, nor what is none, nor one of a task that this daemon decides about.
func TestHostedPromises(t *testing.T) {
	b := newHostBed(t)
	local := b.run(headrace.Low)
	b.awaitState(local, headrace.Running)
	id := b.launch(someContainer)
	kept := func(want float64, ends ...float64) {
		t.Helper()
		for _, end := range ends {
			b.daemon.Host().KeepPromises(map[string]float64{string(id): end, string(local): 1, "nobody": 1})
		}
		testkit.Await(t, fmt.Sprintf("the promise of %v", want), func() bool {
			_, tasks := b.daemon.Host().Facts()
			return len(tasks) == 1 && tasks[0].Promised == want
		})
	}
	kept(60, math.NaN(), -1, 0, 60)
	b.crash()
	b.start()
	kept(60)
	kept(30, 58, 30, 29)
	if task := b.is(local, headrace.Running); task.Promised != 0 {
		t.Errorf("what this daemon decides about has promised %v", task.Promised)
	}
}

func awaitNews(t *testing.T, h *Host) {
	t.Helper()
	select {
	case <-h.Changed():
	case <-time.After(patience):
		t.Fatal("no change was signalled")
	}
}

// farCluster is a manager that knows of one container elsewhere.
type farCluster struct {
	away  bool
	known bool // what it said last, while it is away
	// submitter is who has submitted the application.
	submitter string
	told      chan map[string]float64
}

func (farCluster) Inputs() wireconnect.InputServiceHandler { return nil }

func (f farCluster) Progress(user string, shares map[string]float64) {
	if len(shares) > 0 {
		f.told <- shares
	}
}

func (f farCluster) Application(_ context.Context, _, scheduler, application string, _ bool) ([]*wire.Container, error) {
	all := []*wire.Container{
		{Id: "container_far", User: "nobody-else", State: "suspended", Hosting: &wire.Hosting{Scheduler: scheduler, Application: application, Submitter: f.submitter}},
	}
	switch err := errors.New("the manager does not answer"); {
	case f.away && !f.known:
		return nil, err
	case f.away:
		return all, err
	}
	return all, nil
}

// stuckCluster is a manager that does not answer about one application.
type stuckCluster struct {
	farCluster
	entered, let chan struct{}
}

func (c stuckCluster) Application(ctx context.Context, _, _, application string, _ bool) ([]*wire.Container, error) {
	if application == "hog" {
		c.entered <- struct{}{}
		select {
		case <-c.let:
		case <-ctx.Done():
		}
	}
	return nil, nil
}

// TestOneApplicationAlone: one that asks again and again and waits for all answers does not keep others of its user
// from having theirs.
func TestOneApplicationAlone(t *testing.T) {
	b := &hostBed{bed: newBed(t, policy.Cost)}
	far := stuckCluster{entered: make(chan struct{}, 100), let: make(chan struct{})}
	b.cfg.Cluster = far
	b.start()
	codes := make(chan connect.Code, 20)
	for range cap(codes) {
		go func() {
			_, err := b.host.Application(b.ctx(), &wire.ApplicationRequest{Scheduler: "yarn", Application: "hog"})
			codes <- connect.CodeOf(err)
		}()
	}
	for range maxPerApplication {
		<-far.entered
	}
	ctx, cancel := context.WithTimeout(b.ctx(), patience)
	defer cancel()
	if _, err := b.host.Application(ctx, &wire.ApplicationRequest{Scheduler: "yarn", Application: "application_1"}); err != nil {
		t.Fatalf("another application: %v", err)
	}
	for range cap(codes) - maxPerApplication {
		if code := <-codes; code != connect.CodeResourceExhausted {
			t.Errorf("more of the one: %v", code)
		}
	}
	close(far.let)
}

func TestApplication(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "suspend")
	q := &wire.ApplicationRequest{Scheduler: "yarn", Application: "application_1"}
	r, err := b.host.Application(b.ctx(), q)
	if err != nil || len(r.Containers) != 1 || r.Containers[0].State != "suspended" {
		t.Fatalf("%v, %v", r, err)
	}
	r, err = b.host.Application(b.ctx(), &wire.ApplicationRequest{Scheduler: "yarn", Application: "application_2"})
	if err != nil || len(r.Containers) != 0 {
		t.Fatalf("another application: %v, %v", r, err)
	}
	far := farCluster{told: make(chan map[string]float64, 1)}
	b.cfg.Cluster = far
	b.shutdown()
	b.start()
	// Of others than the caller's own containers nobody is told anything.
	q.Progress = map[string]float64{someContainer: 0.5, "container_far": 0.6, "container_nowhere": 0.7}
	r, err = b.host.Application(b.ctx(), q)
	if told := <-far.told; !maps.Equal(told, q.Progress) { // it knows whose they are
		t.Errorf("the manager is told %v", told)
	}
	if err != nil || len(r.Containers) != 2 || r.Containers[0].Id != someContainer || r.Containers[1].Id != "container_far" {
		t.Fatalf("with a manager: %v, %v", r, err)
	}
	// Who asks for those that do not run is told no more than that of them.
	running := b.launch("container_e17_1763700000000_0001_01_000003")
	q.Aside, q.Progress = true, map[string]float64{string(running): 0.5}
	r, err = b.host.Application(b.ctx(), q)
	if told := <-far.told; len(told) != 1 {
		t.Errorf("of one that runs the manager is told %v", told)
	}
	if err != nil || len(r.Containers) != 2 || r.Containers[0].Id != someContainer || r.Containers[0].State != "suspended" || r.Containers[0].Reason != "" {
		t.Fatalf("those that do not run: %v, %v", r, err)
	}
	q.Aside, q.Progress = false, nil
	b.finish(running, 0)
	b.awaitState(running, headrace.Done)
	b.cfg.Cluster = farCluster{away: true}
	b.shutdown()
	b.start()
	r, err = b.host.Application(b.ctx(), q)
	if err != nil || len(r.Containers) != 1 || r.Containers[0].Id != someContainer || r.Doubt == "" {
		t.Fatalf("while the manager is away: %v, %v", r, err)
	}
	b.cfg.Cluster = farCluster{away: true, known: true, told: far.told}
	b.shutdown()
	b.start()
	r, err = b.host.Application(b.ctx(), q)
	if err != nil || len(r.Containers) != 2 || r.Doubt == "" {
		t.Fatalf("while the manager is away, with what it said last: %v, %v", r, err)
	}
}

// callApplication asks which containers of an application are aside, on whatever machine.
func callApplication(socket, application string) string {
	client := wireconnect.NewHostServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q := &wire.ApplicationRequest{Scheduler: "yarn", Application: application, Aside: true}
	r, err := client.Application(ctx, q)
	if err != nil {
		return connect.CodeOf(err).String()
	}
	answer := fmt.Sprintf("doubt %t", r.Doubt != "")
	for _, c := range r.Containers {
		answer += fmt.Sprintf(", %s %s %s", c.Id, c.State, c.User)
	}
	return answer
}

// TestApplicationOfSubmitter: containers run as one account, whoever has submitted the application;
// a driver elsewhere is told of its own by who has submitted it.
func TestApplicationOfSubmitter(t *testing.T) {
	needRoot(t)
	b := newHostBed(t)
	q := announced(someContainer)
	q.Hosting.Submitter = serve.UserName(4001)
	if _, err := b.host.Prepare(b.ctx(), q); err != nil {
		t.Fatal(err)
	}
	if why := b.arrive(someContainer); why != "" {
		t.Fatal(why)
	}
	ask := func(uid uint32) string {
		return asUser(t, uid, wire.SocketPath(b.cfg.StateDir), "application application_1")[0]
	}
	for _, uid := range []uint32{4001, 4002} {
		if got := ask(uid); got != "doubt false" {
			t.Errorf("while it runs user %d is told %q", uid, got)
		}
	}
	b.mustOrder(someContainer, "suspend")
	b.shutdown()
	b.cfg.Cluster = farCluster{submitter: q.Hosting.Submitter}
	b.start()
	if got, want := ask(4001), "doubt false, "+someContainer+" suspended , container_far suspended "; strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("who has submitted it is told %q, want %q", got, want)
	}
	if got := ask(4002); got != "doubt true" {
		t.Errorf("somebody else is told %q", got)
	}
}

// TestHostedPageOut: to suspend what is suspended already writes memory to swap.
func TestHostedPageOut(t *testing.T) {
	b := newHostBed(t)
	id := b.launch(someContainer)
	b.await(id, "measured", func(w *wire.Task) bool { return w.Usage.Resident > 0 })
	b.mustOrder(id, "suspend")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	order := &wire.NodeOrder{Number: 2, Container: string(id), Command: wire.Command_COMMAND_SUSPEND, PageOut: 20 << 20, Reason: "its memory is needed"}
	if err := b.daemon.Host().Do(ctx, order); err != nil {
		t.Fatal(err)
	}
	history := b.get(id).History
	if e := history[len(history)-1]; e.State != journal.PagedOut || e.Bytes != 20<<20 {
		t.Errorf("the last event is %v", e)
	}
	b.is(id, headrace.Suspended)
	b.mustOrder(id, "resume")
	order.OnlySuspended = true // it has crossed the resume
	if err := b.daemon.Host().Do(ctx, order); err != nil {
		t.Fatal(err)
	}
	b.is(id, headrace.Running)
}

// TestFactsWithoutCRIU: the manager is told what this machine cannot do.
func TestFactsWithoutCRIU(t *testing.T) {
	b := newHostBed(t)
	b.launch(someContainer)
	for _, criu := range []string{"/criu", ""} {
		b.cfg.CRIU = criu
		b.shutdown()
		b.start()
		_, tasks := b.daemon.Host().Facts()
		if len(tasks) != 1 || (tasks[0].NoCheckpoint == "") != (criu != "") {
			t.Errorf("with CRIU %q: %v", criu, tasks)
		}
	}
}
