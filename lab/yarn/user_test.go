package yarn

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// strangerID is a user that has nothing to do with a cluster.
const strangerID = 54321

// needRoot skips the test where YARN cannot be run by a user other than that of
// Headrace's daemons.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run YARN as another user")
	}
}

// As operators run it: Headrace's daemons are root, YARN is not, and so its containers
// are not either.
func TestOrdinaryUser(t *testing.T) {
	parallel(t, 55)
	needRoot(t)
	c := startTest(t, Options{Mode: Headrace, Policy: "suspend", User: "nobody"})
	j := startJobs(t, c)
	t.Run("suspended", func(t *testing.T) {
		f := giveWay(t, j, "suspend", "suspended")
		c.shown(t, c.o.User, f.gave[0], "suspended")
		strangerSeesNothing(t, c, f)
		f.over(t)
	})
	t.Run("too much memory", func(t *testing.T) { tooMuchMemory(t, j) })
	t.Run("announced", func(t *testing.T) { announcedForOthers(t, c) })
	t.Run("checkpointed", func(t *testing.T) { checkpointOfUser(t, j, c.o.User) })
}

// shown fails unless headrace ps shows the container, in the state, to an account.
func (c *Cluster) shown(t *testing.T, account, container, state string) {
	t.Helper()
	as := must(credential(account))(t)
	cmd := exec.CommandContext(within(t, patience), c.o.Binary, "--state-dir", c.machines[0].stateDir(), "ps")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("headrace ps as %s: %v: %s", account, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, container) && strings.Contains(line, state) {
			return
		}
	}
	t.Errorf("headrace ps does not show %s that %s is %s:\n%s", account, container, state, out)
}

// clientAs makes its connections as another user.
func clientAs(t *testing.T, uid int, socket string) *http.Client {
	t.Helper()
	id := uintptr(uid)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		err = linux.OnOwnThread(func() error {
			// Of this thread only, which package unix does not do.
			for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
				if _, _, e := unix.RawSyscall(call, id, id, id); e != 0 {
					return e
				}
			}
			conn, err = new(net.Dialer).DialContext(ctx, "unix", socket)
			return err
		})
		return conn, err
	}}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A stranger is told of no container, and changes none.
func strangerSeesNothing(t *testing.T, c *Cluster, f *fill) {
	ctx := within(t, patience)
	client := clientAs(t, strangerID, c.machines[0].socket())
	host, tasks := wireconnect.NewHostServiceClient(client, wire.BaseURL), wireconnect.NewTaskServiceClient(client, wire.BaseURL)

	application := f.low.application(t)
	for uid, want := range map[int]int{int(c.user.Uid): 2, strangerID: 0} {
		host := wireconnect.NewHostServiceClient(clientAs(t, uid, c.machines[0].socket()), wire.BaseURL)
		told := must(host.Application(ctx, &wire.ApplicationRequest{Scheduler: "yarn", Application: application}))(t)
		if len(told.Containers) != want {
			t.Errorf("user %d is told of %v, want %d containers", uid, told.Containers, want)
		}
	}
	if list := must(tasks.List(ctx, &wire.ListRequest{All: true}))(t); len(list.Tasks) > 0 {
		t.Errorf("a stranger sees %v", list.Tasks)
	}
	_, err := host.Prepare(ctx, &wire.PrepareRequest{Id: "container_1_1_01_000009", Hosting: &wire.Hosting{Scheduler: "yarn", Application: application}})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a stranger has announced a container: %v", err)
	}
	verbs := map[string]func(context.Context, *wire.VerbRequest) (*wire.Task, error){
		"suspend": tasks.Suspend, "resume": tasks.Resume, "checkpoint": tasks.Checkpoint, "restore": tasks.Restore, "kill": tasks.Kill,
	}
	for name, do := range verbs {
		for _, id := range containers(t, c) {
			if _, err := do(ctx, &wire.VerbRequest{Id: id}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s of %s by a stranger: %v", name, id, err)
			}
		}
	}
	if _, err := tasks.Get(ctx, &wire.GetRequest{Id: f.gave[0]}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a stranger looks at %s: %v", f.gave[0], err)
	}
	if _, err := tasks.Forget(ctx, &wire.VerbRequest{Id: f.gave[0]}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a stranger forgets %s: %v", f.gave[0], err)
	}
}

// containers returns those of NodeManager 0 that have not ended.
func containers(t *testing.T, c *Cluster) []string {
	t.Helper()
	var ids []string
	for _, task := range must(c.Tasks(t.Context(), 0))(t) {
		if task.EndedMs == 0 {
			ids = append(ids, task.Id)
		}
	}
	return ids
}

// Of a container that was announced for one user the process of another is refused,
// and its command runs as if there were no Headrace.
func announcedForOthers(t *testing.T, c *Cluster) {
	ctx := within(t, patience)
	const id = "container_1_1_01_000001"
	host := wireconnect.NewHostServiceClient(clientAs(t, int(c.user.Uid), c.machines[0].socket()), wire.BaseURL)
	for _, account := range []string{c.o.User, "root"} {
		announced := must(host.Prepare(ctx, &wire.PrepareRequest{Id: id, User: account, Hosting: &wire.Hosting{Scheduler: "yarn"}}))(t)
		argv := append(announced.Argv, "sh", "-c", "id -u")
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: strangerID, Gid: strangerID}}
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(strangerID) {
			t.Errorf("announced for %s, a stranger's command: %v: %q", account, err, out)
		}
		if _, err := c.TaskOf(ctx, 0, id); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("announced for %s, a stranger's command is a task: %v", account, err)
		}
	}
}

// Where root may not checkpoint what others run, the container is suspended instead.
func checkpointOfUser(t *testing.T, j *jobs, account string) {
	needCRIU(t)
	c := j.c
	if err := c.KillManager(); err != nil {
		t.Fatal(err)
	}
	c.o.Policy = "checkpoint"
	if err := c.StartManager(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	state := "checkpointed"
	if !hasCapability(t, unix.CAP_SYS_RESOURCE) {
		state = "suspended"
	}
	f := giveWay(t, j, "checkpoint", state)
	c.shown(t, account, f.gave[0], state)
	if task := must(c.TaskOf(t.Context(), 0, f.gave[0]))(t); state == "suspended" {
		t.Logf("%s is suspended, not checkpointed: %s", f.gave[0], task.NoCheckpoint)
	}
	f.over(t)
}

// hasCapability reports whether this process has it.
func hasCapability(t *testing.T, capability int) bool {
	t.Helper()
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		t.Fatal(err)
	}
	return sets[capability/32].Effective&(1<<(capability%32)) != 0
}
