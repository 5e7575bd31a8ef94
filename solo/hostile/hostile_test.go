package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Nobody has these accounts.
const (
	attackerUID = 64101
	victimUID   = 64102
)

// patience is how long the test waits for what must happen; the machine may be busy.
const patience = 2 * time.Minute

// roleEnv makes the test binary another program: the attacker, or a client of the
// victim's. Its standard input is a briefing.
const roleEnv = "HEADRACE_TEST_HOSTILE"

// TestMain makes the test binary serve as the programs of other users.
func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		testkit.M{M: m}.Run()
	case "attacker":
		os.Exit(attackMain(os.Stdin, os.Stdout))
	case "victim":
		os.Exit(victimMain(os.Stdin, os.Stdout))
	default:
		fmt.Fprintln(os.Stderr, "unknown role", role)
		os.Exit(2)
	}
}

// briefing is what a program of another user is told. The attacker is told more than
// it could find out, so that no attack fails for want of a name.
type briefing struct {
	StateDir, Socket string
	Home             string // the attacker's
	// Marker is in everything secret of the victims; only the victim is told.
	Marker string
	// Dirs and Files of others, that exist and are closed to the attacker.
	Dirs, Files []string
	SecretSize  int // of each of Files that belongs to the other user
	DaemonPID   int
	PIDs        []int // of the victims' processes
	// IDs of the victims' tasks, requests and streams.
	Tasks, Warms, Streams []string
	Manager               string // its URL
}

// TestHostileUser is the attack.
func TestHostileUser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this builds the programs and starts a daemon")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run a daemon for several users")
	}
	w := newWorld(t)
	w.startDaemon()
	w.startManager()
	w.plant()
	before := w.look()

	out, said := w.runAs("attacker", attackerUID, w.briefing())
	for line := range strings.Lines(said) {
		if text, is := strings.CutPrefix(line, "SKIP "); is {
			t.Log("left out:", strings.TrimSpace(text))
		} else if text, is := strings.CutPrefix(line, "DONE "); is {
			t.Log(strings.TrimSpace(text))
		} else {
			t.Error("the attacker:", strings.TrimSpace(line))
		}
	}
	if len(out) < 100_000 {
		t.Errorf("the attacker got only %d bytes of answers: it cannot have tried much", len(out))
	}
	if i := bytes.Index(out, []byte(w.marker)); i >= 0 {
		t.Errorf("a secret of others is in an answer: %q", out[max(0, i-1000):min(len(out), i+200)])
	}
	w.endTasksOf(attackerUID)
	w.compare(before, w.look())
	w.stillServes()
}

// world is a machine with a daemon and the things of others.
type world struct {
	*testing.T
	dir    string // 0711: everybody reaches what lies in it by name
	marker string
	daemon *exec.Cmd
	client wireconnect.TaskServiceClient
	brief  briefing
	// plants are the files whose state must not change.
	plants []string
}

func newWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "hr-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{T: t, dir: dir, marker: "secret" + rand.Text()}
	w.must(os.Chmod(dir, 0o711))
	self, err := os.ReadFile("/proc/self/exe") // others cannot reach where go test has put it
	w.must(err)
	w.must(os.WriteFile(filepath.Join(dir, "hostile"), self, 0o755))
	w.brief = briefing{StateDir: filepath.Join(dir, "state"), Home: filepath.Join(dir, "attacker")}
	w.brief.Socket = wire.SocketPath(w.brief.StateDir)
	w.must(os.Mkdir(w.brief.Home, 0o700))
	w.must(os.Chown(w.brief.Home, attackerUID, attackerUID))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	return ctx
}

// startDaemon runs root's daemon. Its log is a file that everybody might read if
// they could reach it: the daemon has it open.
func (w *world) startDaemon() {
	w.Helper()
	logs := filepath.Join(w.dir, "logs")
	w.must(os.Mkdir(logs, 0o700))
	log := filepath.Join(logs, "daemon-"+w.marker)
	f, err := os.OpenFile(log, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	w.must(err)
	defer f.Close()
	fmt.Fprintln(f, w.marker)
	w.daemon = exec.Command(testkit.Headrace(w), "solo", "--config=", "--state-dir", w.brief.StateDir, "--slots", "8",
		"--limit", "spec-bytes=24M") // less to be filled and cleared than by default
	w.daemon.Stdout, w.daemon.Stderr = f, f
	w.daemon.Dir = logs
	w.must(w.daemon.Start())
	w.brief.DaemonPID = w.daemon.Process.Pid
	w.client = wireconnect.NewTaskServiceClient(wire.NewHTTPClient(w.brief.Socket), wire.BaseURL)
	w.Cleanup(w.end)
	testkit.Await(w, "an answer of the daemon", func() bool {
		_, err := w.client.List(w.ctx(), &wire.ListRequest{})
		return err == nil
	}, func() string { text, _ := os.ReadFile(log); return string(text) })
}

// end ends all tasks and the daemon.
func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if list, err := w.client.List(ctx, &wire.ListRequest{}); err == nil {
		for _, task := range list.Tasks {
			if _, err := w.client.Kill(ctx, &wire.VerbRequest{Id: task.Id, Grace: 0.001}); err != nil {
				w.Log("clean up:", err)
			}
		}
	}
	w.daemon.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { w.daemon.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		w.daemon.Process.Kill()
		w.Error("the daemon did not end")
	}
	w.endSupervisors()
	if w.Failed() {
		text, _ := os.ReadFile(filepath.Join(w.dir, "logs", "daemon-"+w.marker))
		w.Logf("the end of the daemon's log:\n%s", text[max(0, len(text)-4000):])
	}
}

// endSupervisors ends what still works in the state directory, which is about to go.
func (w *world) endSupervisors() {
	w.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.must(err)
	for _, path := range lines {
		line, err := os.ReadFile(path)
		var pid int
		if _, scan := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil || scan != nil || !bytes.Contains(line, []byte(w.brief.StateDir+"/")) {
			continue
		}
		w.Logf("process %d was left: %q", pid, line)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// startManager runs a manager that the attacker can reach, and whose token not.
func (w *world) startManager() {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.44:0") // where no connection of others takes the port
	w.must(err)
	address := l.Addr().String()
	l.Close()
	token := filepath.Join(w.dir, "logs", "token")
	cmd := exec.Command(testkit.Headrace(w), "manager", "--listen", address, "--token-file", token)
	var log bytes.Buffer
	cmd.Stderr = &log
	w.must(cmd.Start())
	w.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	w.brief.Manager = "http://" + address
	testkit.Await(w, "an answer of the manager", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, &log)
}

func (w *world) briefing() briefing {
	b := w.brief
	b.Marker = ""
	return b
}

// lively is what a program says, which has to say something again and again: each time it sets a timer back.
type lively struct {
	said bytes.Buffer // not embedded: what copies would read into it, past Write
	late *time.Timer
}

func (l *lively) Write(b []byte) (int, error) {
	l.late.Reset(2 * patience)
	return l.said.Write(b)
}

// runAs runs one of the programs of other users and returns its output and what it
// has said on standard error, as it does at the end of each part.
func (w *world) runAs(role string, uid uint32, b briefing) (out []byte, said string) {
	w.Helper()
	text, err := json.Marshal(b)
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, "hostile"))
	cmd.Env = []string{roleEnv + "=" + role, "PATH=" + os.Getenv("PATH"), "HOME=" + b.Home, "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	var stdout bytes.Buffer
	stderr := lively{late: time.AfterFunc(2*patience, cancel)}
	defer stderr.late.Stop()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		w.Fatalf("%s: %v\n%s", role, err, &stderr.said)
	}
	return stdout.Bytes(), stderr.said.String()
}

func (w *world) tasksOf(uid uint32) []*wire.Task {
	w.Helper()
	list, err := w.client.List(w.ctx(), &wire.ListRequest{All: true})
	w.must(err)
	var tasks []*wire.Task
	for _, task := range list.Tasks {
		if task.User == fmt.Sprint(uid) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

func (w *world) endTasksOf(uid uint32) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	ctx := w.ctx()
	for _, task := range w.tasksOf(uid) {
		if task.EndedMs != 0 {
			continue
		}
		group.Go(func() error {
			_, err := w.client.Kill(ctx, &wire.VerbRequest{Id: task.Id, Grace: 0.001})
			if err == nil {
				return nil
			}
			if now, gone := w.client.Get(ctx, &wire.GetRequest{Id: task.Id}); gone == nil && now.EndedMs == 0 {
				return fmt.Errorf("kill %s: %w", task.Id, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		w.Error(err)
	}
}

// stillServes: root and the victim can work as before.
func (w *world) stillServes() {
	w.Helper()
	for _, uid := range []uint32{0, victimUID} {
		b := w.brief
		b.Marker = "work"
		out, said := w.runAs("victim", uid, b)
		if string(out) != "done\n" {
			w.Errorf("user %d cannot work any more: %s%s", uid, out, said)
		}
	}
}

func readBriefing(r io.Reader) (briefing, error) {
	var b briefing
	err := json.NewDecoder(r).Decode(&b)
	return b, err
}
