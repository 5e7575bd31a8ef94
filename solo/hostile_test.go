package solo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/internal/accept"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/serve"
	"headrace/stream"
	"headrace/stream/protocol"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// What a hostile client does, as another user: it takes as much as it gets of one
// thing and holds it until its standard input ends.
var attacks = map[string]func(socket string) (note string){
	"connections": holdConnections, "bodies": holdBodies, "bodies-http1": holdBodies1,
	"watches": holdWatches, "lists": holdLists, "requests": holdRequests, "headers": holdHeaders,
	"follows": holdFollows, "searches": holdSearches, "sockets": holdSockets, "metrics": holdMetrics,
	"consumers": holdConsumers, "names": holdNames, "onetask": holdOneTask,
}

// exhausting are attacks of which it is seen that they take all there is: something is refused to them.
var exhausting = map[string]bool{"consumers": true, "names": true, "onetask": true}

// attack carries one out; see startAttack.
func attack(socket, name string) {
	fmt.Println(attacks[name](socket))
	io.Copy(io.Discard, os.Stdin)
}

// startAttack has a user begin to attack, and returns when it holds all that it
// gets, with what it says about that. end has it let go.
func startAttack(t *testing.T, uid uint32, socket, name string) (note string, end func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "attack "+name)
	cmd.Env = append(os.Environ(), callEnv+"="+socket, exitAtOnce)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	cmd.Dir, cmd.Stderr = testkit.OpenDir(t), os.Stderr
	if err := os.Chown(cmd.Dir, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	out, end := testkit.Converse(t, cmd)
	note, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("the attack %q did not begin: %v", name, err)
	}
	return strings.TrimSpace(note), end
}

// attackTime is how long the attacks go on taking more when they are refused.
const attackTime = 3 * time.Second

func holdConnections(socket string) string {
	held := 0
	for range 1500 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		keepOpen(conn)
		held++
	}
	return fmt.Sprintf("%d connections", held)
}

// kept are descriptors that must not be closed by the collector of garbage.
var kept struct {
	sync.Mutex
	all []any
}

func keepOpen(x any) {
	kept.Lock()
	defer kept.Unlock()
	kept.all = append(kept.all, x)
}

// h2 returns a client of unencrypted HTTP/2.
func h2(socket string) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
}

// stalling gives so many bytes and then nothing more, for ever.
type stalling struct{ left int }

func (s *stalling) Read(p []byte) (int, error) {
	if s.left == 0 {
		select {}
	}
	n := min(len(p), s.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	s.left -= n
	return n, nil
}

// stall begins n requests with 15 MB each, and waits until no more is refused.
func stall(client *http.Client, n int) string {
	var mu sync.Mutex
	refused := map[string]int{}
	for range n {
		go func() {
			q, _ := http.NewRequest("POST", wire.BaseURL+wireconnect.TaskServiceRunProcedure, &stalling{left: 15 << 20})
			q.Header.Set("Content-Type", "application/json")
			q.ContentLength = 15<<20 + 1
			res, err := client.Do(q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused["broken off"]++
				return
			}
			refused[res.Status]++
		}()
	}
	time.Sleep(attackTime)
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprintf("%d stalled, %v", n, refused)
}

func holdBodies(socket string) string { return stall(h2(socket), 100) }

func holdBodies1(socket string) string {
	return stall(&http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}, 200)
}

func holdWatches(socket string) string {
	client := wireconnect.NewTaskServiceClient(h2(socket), wire.BaseURL)
	return holdStreams(func() (*connect.ServerStreamForClient[wire.WatchEvent], error) {
		return client.Watch(context.Background(), &wire.WatchRequest{})
	})
}

// holdFollows follows the logs of a task of its own.
func holdFollows(socket string) string {
	client := wireconnect.NewTaskServiceClient(h2(socket), wire.BaseURL)
	return holdStreams(func() (*connect.ServerStreamForClient[wire.LogChunk], error) {
		return client.Logs(context.Background(), &wire.LogsRequest{Id: "t1", Follow: true, Tail: new(uint32)})
	})
}

// holdStreams begins answers that go on, and keeps those that have begun.
func holdStreams[Message any](begin func() (*connect.ServerStreamForClient[Message], error)) string {
	return many(1200, func() error {
		s, err := begin()
		if err == nil && s.Receive() {
			keepOpen(s)
			return nil
		}
		if err == nil {
			err = s.Err()
		}
		return err
	})
}

// holdSearches has large directories searched, again and again.
func holdSearches(socket string) string {
	client := wireconnect.NewDataServiceClient(h2(socket), wire.BaseURL)
	for range 1200 {
		go func() {
			for {
				s, err := client.Cache(context.Background(), &wire.CacheRequest{Paths: []string{"/usr"}})
				if err != nil {
					return
				}
				for s.Receive() {
				}
				if s.Err() != nil { // refused
					return
				}
			}
		}()
	}
	time.Sleep(attackTime)
	return "asked"
}

// many makes n calls at a time and tells how many went well and how the rest were
// refused. It waits for ten seconds, and longer for the first refusal: what has not been asked for by then takes nothing.
func many(n int, call func() error) string {
	var mu sync.Mutex
	codes := map[string]int{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				codes["ok"]++
				return
			}
			codes[connect.CodeOf(err).String()]++
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	refused := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return codes[connect.CodeResourceExhausted.String()] > 0
	}
	for begun, waits := time.Now(), true; waits; {
		select {
		case <-over:
			waits = false
		case <-time.After(100 * time.Millisecond):
			waited := time.Since(begun)
			waits = waited < 10*time.Second || !refused() && waited < patience
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprint(codes)
}

// holdLists asks for long answers and reads none of them.
func holdLists(socket string) string {
	for range 200 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		if err := conn.(*net.UnixConn).SetReadBuffer(4096); err != nil {
			return err.Error()
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"all\":true}", wireconnect.TaskServiceListProcedure)
		keepOpen(conn)
	}
	time.Sleep(attackTime)
	return "asked"
}

// holdRequests has as many requests under way as it can that are not answered: they
// wait for the rest of a small body.
func holdRequests(socket string) string {
	client := h2(socket)
	for range 3000 {
		go func() {
			q, _ := http.NewRequest("POST", wire.BaseURL+wireconnect.TaskServiceRunProcedure, &stalling{left: 10})
			q.Header.Set("Content-Type", "application/json")
			q.ContentLength = 20
			client.Do(q)
		}()
	}
	time.Sleep(attackTime)
	return "asked"
}

// holdHeaders sends headers of the greatest size on all streams of all connections,
// without an end.
func holdHeaders(socket string) string {
	streams := 0
	for range 300 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		keepOpen(conn)
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			continue
		}
		b := ""
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"},
			{":path", wireconnect.TaskServiceRunProcedure}, {"content-type", "application/json"}, {"x-large", strings.Repeat("x", 12<<10)}} {
			b += "\x00" + hpackString(f[0]) + hpackString(f[1])
		}
		for s := range 64 {
			head := []byte{byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b)), 1, 4, 0, 0, 0, byte(2*s + 1)}
			if _, err := io.WriteString(conn, string(head)+b); err != nil {
				break
			}
			streams++
		}
	}
	time.Sleep(attackTime)
	return fmt.Sprintf("%d streams", streams)
}

// hpackString returns a string as RFC 7541 has it, not compressed.
func hpackString(s string) string {
	if len(s) < 127 {
		return string(byte(len(s))) + s
	}
	b := []byte{127}
	n := len(s) - 127
	for ; n >= 128; n /= 128 {
		b = append(b, byte(n%128+128))
	}
	return string(append(b, byte(n))) + s
}

// holdSockets connects to all sockets of the daemon and says nothing.
func holdSockets(socket string) string {
	held := 0
	for _, name := range []string{"stream.sock", "attach.sock", "headrace.sock", "stream.sock"} {
		for range 150 {
			conn, err := net.DialTimeout("unix", filepath.Join(filepath.Dir(socket), name), time.Second)
			if err != nil {
				break
			}
			keepOpen(conn)
			held++
		}
	}
	return fmt.Sprintf("%d connections", held)
}

// holdMetrics asks once on each connection and keeps it.
func holdMetrics(string) string {
	held := 0
	for range 1000 {
		conn, err := net.DialTimeout("tcp", os.Getenv(metricsEnv), time.Second)
		if err != nil {
			break
		}
		keepOpen(conn)
		fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		held++
	}
	return fmt.Sprintf("%d connections", held)
}

// notBegun is what an attack says that could not be begun, before the reason.
const notBegun = "not begun: "

// holdConsumers attaches to all seats of a stream of its own, asks for units and does not read what it is given:
// parts of files, each of which is open meanwhile. Other connections say nothing.
func holdConsumers(socket string) string {
	const seats, more = stream.MaxConsumers, 1100
	dir, err := os.Getwd()
	for n := range seats {
		path := filepath.Join(dir, fmt.Sprint(n))
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err == nil {
			err = os.Truncate(path, 512<<10)
		}
	}
	client := wireconnect.NewTaskServiceClient(h2(socket), wire.BaseURL)
	var res *wire.RunResponse
	if err == nil {
		res, err = client.Run(context.Background(), &wire.RunRequest{Argv: []string{"true"}, Held: true,
			Input: &wire.Input{Paths: []string{dir}, Split: wire.Split_SPLIT_RAW, Tasks: seats, NoWarm: true}})
	}
	var task *wire.Task
	if err == nil {
		task, err = client.Get(context.Background(), &wire.GetRequest{Id: res.Ids[0]})
	}
	if err != nil {
		return notBegun + err.Error()
	}
	var last atomic.Int64
	return many(seats+more, func() error {
		sock, err := net.Dial("unix", filepath.Join(filepath.Dir(socket), "stream.sock"))
		if err != nil {
			return err
		}
		conn := protocol.NewConn(sock.(*net.UnixConn))
		keepOpen(conn)
		sock.SetReadDeadline(time.Now().Add(attackTime))
		if seat := last.Add(1) - 1; seat < seats {
			err = conn.Send(&protocol.Hello{Version: protocol.Version, Stream: task.Input.Stream, Consumer: uint32(seat), Attempt: 1}, &protocol.Next{})
		}
		if err == nil {
			_, err = conn.Receive()
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) { // that is all it is told
			return connect.NewError(connect.CodeResourceExhausted, err)
		}
		return nil // what is said to those who are let in does not matter
	})
}

// holdNames has files be kept in memory, by many names, that are large only by their sizes.
func holdNames(socket string) string {
	dir, err := os.Getwd()
	if err == nil {
		err = os.WriteFile("sparse", nil, 0o600)
	}
	if err == nil {
		err = os.Truncate("sparse", 8<<40)
	}
	client := wireconnect.NewDataServiceClient(h2(socket), wire.BaseURL)
	codes := map[string]int{}
	for request := range 20 {
		var paths []string
		for i := range 10 {
			path := filepath.Join(dir, fmt.Sprint(request, "-", i))
			if err == nil {
				err = os.Link("sparse", path)
			}
			paths = append(paths, path)
		}
		if err != nil {
			return notBegun + err.Error()
		}
		if _, err := client.Warm(context.Background(), &wire.WarmRequest{Paths: paths}); err != nil {
			codes[connect.CodeOf(err).String()]++
		} else {
			codes["ok"]++
		}
	}
	return fmt.Sprint(codes)
}

// holdOneTask asks again and again for something of a task that takes as long as it may to stop.
func holdOneTask(socket string) string {
	client := wireconnect.NewTaskServiceClient(h2(socket), wire.BaseURL)
	q := &wire.VerbRequest{Id: "t1", Grace: 60}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		task, err := client.Get(context.Background(), &wire.GetRequest{Id: q.Id})
		switch {
		case err != nil || time.Now().After(deadline):
			return fmt.Sprint(task, err)
		case task.State == "running" && task.Doing == "":
			go client.Suspend(context.Background(), q)
			continue
		case task.State == "suspended" && task.Doing == "": // before it had set its trap
			go client.Resume(context.Background(), q)
			continue
		case task.Doing != "suspending":
			continue
		}
		return many(1000, func() error {
			_, err := client.Resume(context.Background(), q)
			return err
		})
	}
}

// resident is the memory of a process that is its own, in bytes.
func residentOf(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no RssAnon in the status")
	return 0
}

// answers asks for the tasks as root, as headrace ps does, with a connection of its own each time, and returns how long the best of
// some attempts has taken, of as many as come in a minute until one is good enough: the machine may be busy with something else.
func answers(t *testing.T, socket string, during string, enough time.Duration) (best time.Duration) {
	t.Helper()
	best = patience
	for first, n := time.Now(), 0; n < 5 || best > enough && time.Since(first) < time.Minute; n++ {
		client := wireconnect.NewTaskServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		_, err := client.List(ctx, &wire.ListRequest{})
		cancel()
		if err != nil {
			t.Fatalf("%s: root gets no answer: %v", during, err)
		}
		best = min(best, time.Since(began))
	}
	t.Logf("%s: root is answered after %v", during, best)
	return best
}

// wantAnswers checks that answers come within a second, or ten times what they took before if the machine is that busy.
func wantAnswers(t *testing.T, socket string, during string, before time.Duration) {
	t.Helper()
	enough := max(time.Second, 10*before)
	if best := answers(t, socket, during, enough); best > enough {
		t.Errorf("%s: root is answered after %v, %v before", during, best, before)
	}
}

// TestHostileClients has a user take all that it gets of each thing that the daemon
// has to share out. Root is answered at once meanwhile, another user too, and the
// daemon's memory stays bounded.
func TestHostileClients(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Wait)
	m.flags = []string{"--warm-budget", "64MB"}
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	runs := []string{"run trap : TSTP; while :; do sleep 1; done"}
	for i := range 40 {
		runs = append(runs, fmt.Sprintf("run sleep 100%d", i))
	}
	asUser(t, 4001, socket, runs...)
	calm := answers(t, socket, "at first", time.Second)
	const bound = 300 << 20 // without limits it is more than 1 GB, after seconds
	for name := range attacks {
		if name == "sockets" || name == "metrics" {
			continue // of tests of their own
		}
		t.Run(name, func(t *testing.T) {
			before, calm := residentOf(t, m.cmd.Process.Pid), answers(t, socket, "before", time.Second)
			note, end := startAttack(t, 4001, socket, name)
			wantAnswers(t, socket, name, calm)
			if got := asUser(t, 4002, socket, "list"); len(got) != 1 || got[0] != "" { // has no tasks
				t.Errorf("another user gets %q", got)
			}
			after := residentOf(t, m.cmd.Process.Pid)
			t.Logf("%s; the daemon has %d MB, %d MB before, %d descriptors", note, after>>20, before>>20, descriptorsOf(t, m.cmd.Process.Pid))
			if after-before > bound {
				t.Errorf("the daemon has grown by %d MB, want at most %d", (after-before)>>20, bound>>20)
			}
			if exhausting[name] && (strings.HasPrefix(note, notBegun) || !strings.Contains(note, connect.CodeResourceExhausted.String())) {
				t.Errorf("the attack does not come to a limit: %s", note)
			}
			end()
			if name == "consumers" {
				m.killJobs()
			}
			untilServed(t, 4001, socket)
		})
	}
	wantAnswers(t, socket, "afterwards", calm)
	if got := asUser(t, 4001, socket, "run true"); !strings.HasPrefix(got[0], "t") {
		t.Errorf("the user that had attacked gets %q afterwards", got)
	}
}

// untilServed waits until a user whose attack is over is served again: the daemon may be slow to notice how much has gone.
func untilServed(t *testing.T, uid uint32, socket string) {
	t.Helper()
	testkit.Await(t, "room for a user's requests", func() bool { return !strings.Contains(asUser(t, uid, socket, "list")[0], "resource_exhausted") })
}

// killJobs kills all tasks that are a part of a job.
func (m *machine) killJobs() {
	m.t.Helper()
	res, err := m.tasks.List(m.ctx(), &wire.ListRequest{})
	if err != nil {
		m.t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(32)
	ctx := m.ctx()
	for _, task := range res.Tasks {
		if task.Job != "" {
			group.Go(func() error { _, err := m.tasks.Kill(ctx, &wire.VerbRequest{Id: task.Id}); return err })
		}
	}
	if err := group.Wait(); err != nil {
		m.t.Error(err)
	}
}

// TestManyLargeEnvironments hands in tasks with the largest environments there can
// be: they are on the disk while the tasks wait, and whole when one starts, also
// after a restart of the daemon.
func TestManyLargeEnvironments(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Wait)
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	before, calm := residentOf(t, m.cmd.Process.Pid), answers(t, socket, "at first", time.Second)
	env := []string{"PATH=/usr/bin:/bin"}
	for i := range 15 {
		env = append(env, fmt.Sprintf("LARGE%d=%s", i, strings.Repeat("x", 120<<10)))
	}
	sum := []string{"/bin/sh", "-c", `printf %s "$LARGE0$LARGE14" | wc -c`}
	tasks := 60 // 1.8 MB each
	if raceDetector() {
		tasks = 10 // it takes long to hand them in
	}
	var last headrace.TaskID
	for i := range tasks {
		last = m.run(headrace.Normal, held, func(q *wire.RunRequest) { q.Argv, q.Env = sum, env; env[0] = fmt.Sprintf("PATH=/usr/bin:/bin:/%d", i) })
	}
	const bound = 80 << 20
	check := func(when string) {
		t.Helper()
		now := residentOf(t, m.cmd.Process.Pid)
		t.Logf("%s: %d MB, %d MB before", when, now>>20, before>>20)
		if now-before > bound {
			t.Errorf("%s the daemon has grown by %d MB, want at most %d", when, (now-before)>>20, bound>>20)
		}
	}
	check("with all tasks")
	m.kill9()
	m.launch()
	check("after a restart")
	wantAnswers(t, socket, "with large environments", calm)
	if _, err := m.tasks.Resume(m.ctx(), &wire.VerbRequest{Id: string(last)}); err != nil {
		t.Fatal(err)
	}
	m.awaitState(last, headrace.Done)
	if got, err := allLogs(m.ctx(), m.tasks, string(last)); err != nil || got != fmt.Sprint(240<<10) {
		t.Errorf("the command saw %q bytes of its environment, %v; want %d", got, err, 240<<10)
	}
}

// TestCommandsOfAllTogether: many users do not fill the disk with their commands,
// and root is not held up.
func TestCommandsOfAllTogether(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.SpecBytes = 5000
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	calm := answers(t, socket, "at first", time.Second)
	half := "run " + strings.Repeat("x", 3000)
	first := asUser(t, 4001, socket, half)[0]
	if got := asUser(t, 4002, socket, half); got[0] != "resource_exhausted" {
		t.Errorf("beyond what all may have: %q", got)
	}
	b.run(headrace.Normal, func(q *wire.RunRequest) { q.Argv = append(q.Argv, strings.Repeat("x", 10000)) })
	wantAnswers(t, socket, "with no room for commands", calm)
	asUser(t, 4001, socket, "kill "+first)
	if got := asUser(t, 4002, socket, half); !strings.HasPrefix(got[0], "t") {
		t.Errorf("after another has ended: %q", got)
	}
}

// TestEndedCommandsAreShort: of a command that is over as much is kept as people
// read.
func TestEndedCommandsAreShort(t *testing.T) {
	long := strings.Repeat("x", maxShownArgv)
	for _, c := range []struct{ argv, want []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", long, "c"}, []string{"a", "... (2 more)"}},
		{[]string{long[:len(long)-8], "b"}, []string{long[:len(long)-8], "... (1 more)"}},
		{[]string{long + "é", "b"}, []string{long, "... (1 more)"}},
	} {
		if got := shortened(c.argv); !slices.Equal(got, c.want) {
			t.Errorf("%.60q became %.60q", c.argv, got)
		}
	}
}

// TestRefusalsSayWhy looks at what somebody is told who has reached a limit.
func TestRefusalsSayWhy(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	_, end := startAttack(t, 4001, socket, "connections")
	for deadline := time.Now().Add(patience); ; { // those of the attack are being told first
		got := asUser(t, 4001, socket, "why")
		if strings.Contains(got[0], "resource_exhausted") && strings.Contains(got[0], "256 open connections") && strings.Contains(got[0], "root") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beyond the limit of connections: %q", got)
		}
	}
	end()
	untilServed(t, 4001, socket)
	_, end = startAttack(t, 4001, socket, "watches")
	defer end()
	if got := asUser(t, 4001, socket, "wait x"); got[0] != "resource_exhausted" {
		t.Errorf("beyond the limit of watches: %q", got)
	}
	if got := asUser(t, 4002, socket, "wait x"); got[0] != "not_found" {
		t.Errorf("another user's watch: %q", got)
	}
}

// TestSlowBodyIsGivenUp sends a part of a request and then nothing.
func TestSlowBodyIsGivenUp(t *testing.T) {
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	front := newFront(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		done <- err
	}), &Config{UserRequestBytes: maxRequest, RequestBytes: maxRequest})
	front.BodyTime = 50 * time.Millisecond
	srv := front.Server(t.Context())
	go srv.Serve(serve.NewPeers(&accept.Listener{Listener: socket}, defaultUserConnections))
	defer srv.Close()
	for _, client := range []*http.Client{h2(socket.Addr().String()), wire.NewHTTPClient(socket.Addr().String())} {
		q, err := http.NewRequest("POST", wire.BaseURL+"/x", &stalling{left: 10})
		if err != nil {
			t.Fatal(err)
		}
		q.ContentLength = 20
		go client.Do(q)
		select {
		case err := <-done:
			if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
				t.Errorf("reading the body ended with %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a body that does not come is waited for")
		}
	}
}

// TestAnswersOutliveTheirRequests: the time that a request has to come in, or that a message has to be fetched, says
// nothing of how long it may be answered.
func TestAnswersOutliveTheirRequests(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	for _, client := range []func(socket string) *http.Client{h2, wire.NewHTTPClient} {
		testkit.Longer(t, 300*time.Millisecond, func(limit time.Duration) error { return watchLongerThan(b, client, limit) })
	}
}

// watchLongerThan has a client watch for longer than a request has to come in, or a message to be fetched.
func watchLongerThan(b *bed, client func(socket string) *http.Client, limit time.Duration) error {
	socket, err := net.Listen("unix", filepath.Join(b.t.TempDir(), "s"))
	if err != nil {
		return err
	}
	front := newFront(b.daemon.host.s.handler(), &b.daemon.cfg)
	front.BodyTime, front.AnswerTime = limit, limit
	srv := front.Server(b.t.Context())
	go srv.Serve(serve.NewPeers(&accept.Listener{Listener: socket}, defaultUserConnections))
	defer srv.Close()
	watch, err := wireconnect.NewTaskServiceClient(client(socket.Addr().String()), wire.BaseURL).Watch(b.ctx(), &wire.WatchRequest{})
	if err != nil {
		return err
	}
	defer watch.Close()
	if !watch.Receive() {
		return fmt.Errorf("the watch does not begin: %w", watch.Err())
	}
	time.Sleep(3 * limit)
	id := string(b.run(headrace.Normal, held))
	for told := false; !told; {
		if !watch.Receive() {
			return fmt.Errorf("the watch ended: %w", watch.Err())
		}
		told = slices.ContainsFunc(watch.Msg().Tasks, func(task *wire.Task) bool { return task.Id == id })
	}
	return nil
}

// TestShortOfDescriptors takes all descriptors of the daemon away by connections to
// its sockets. Root is answered meanwhile, and afterwards everything is as before:
// streams deal, and containers are taken in.
func TestShortOfDescriptors(t *testing.T) {
	needRoot(t)
	m := newMachine(t, policy.Wait)
	m.nofile = 200
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	calm := answers(t, socket, "at first", time.Second)
	_, end := startAttack(t, 4001, socket, "sockets")
	testkit.Await(t, "195 descriptors of the daemon", func() bool { return descriptorsOf(t, m.cmd.Process.Pid) >= 195 })
	wantAnswers(t, socket, "without descriptors", calm)
	end()
	path := m.records(1000)
	ids := m.readers(path, copies)
	for _, id := range ids {
		m.awaitState(headrace.TaskID(id), headrace.Done)
	}
	m.wantOnce(path, ids)
	c, err := net.Dial("unix", filepath.Join(m.cfg.StateDir, "attach.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write([]byte("no request"))
	c.(*net.UnixConn).CloseWrite()
	if b, err := io.ReadAll(c); len(b) == 0 {
		t.Errorf("whoever knocks for a container gets no answer: %v", err)
	}
}

// TestMetricsAreNotHeld: connections to the metrics, of which nobody knows whose
// they are, take neither the daemon nor the metrics away.
func TestMetricsAreNotHeld(t *testing.T) {
	needRoot(t)
	free, err := net.Listen("tcp", "127.0.0.43:0") // where no connection of others takes the port
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	t.Setenv(metricsEnv, addr)
	m := newMachine(t, policy.Wait)
	m.flags, m.nofile = []string{"--metrics", addr}, 200
	m.launch()
	socket := wire.SocketPath(m.cfg.StateDir)
	calm := answers(t, socket, "at first", time.Second)
	note, end := startAttack(t, 4001, socket, "metrics")
	defer end()
	wantAnswers(t, socket, note, calm)
	if n := descriptorsOf(t, m.cmd.Process.Pid); n > 150 {
		t.Errorf("%s: the daemon has %d descriptors", note, n)
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{}}
	res, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), "headrace_slots") {
		t.Errorf("the metrics: %v, %d bytes", err, len(b))
	}
}

func descriptorsOf(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// raceDetector reports whether this program watches for races, which takes many times
// the memory and the time.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
