package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/hdfs"
	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
	"headrace/node"
	"headrace/pagecache"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// hdfsCluster is a real HDFS with a manager and a node of ours, as processes.
type hdfsCluster struct {
	t                   *testing.T
	hdfs                *hdfstest.HDFS
	superuser           hdfs.Options
	asked               []string // the manager's flags that say how HDFS is
	headrace, dir, addr string
	env                 []string
	manager, node       *process
	cache               pagecache.Cache
	client              wireconnect.InputServiceClient
}

const hdfsBlock = 1 << 20

func newHDFSCluster(t *testing.T) *hdfsCluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this starts an HDFS and daemons")
	}
	shared := &hdfstest.Shared{Properties: []string{
		"dfs.blocksize", fmt.Sprint(hdfsBlock),
		"hadoop.proxyuser." + hdfstest.User + ".hosts", "*", "hadoop.proxyuser." + hdfstest.User + ".users", "*",
	}}
	t.Cleanup(shared.Stop)
	h := shared.Get(t)
	return startHDFSCluster(t, h, hdfs.Options{NameNodes: []string{h.URL()}, User: hdfstest.User}, "--hdfs", "test="+h.URL(), "--hdfs-proxy", hdfstest.User)
}

func startHDFSCluster(t *testing.T, h *hdfstest.HDFS, superuser hdfs.Options, asked ...string) *hdfsCluster {
	c := &hdfsCluster{t: t, hdfs: h, superuser: superuser, asked: asked, headrace: testkit.Headrace(t), dir: t.TempDir(), addr: "127.0.0.1:0"}
	c.env = append(os.Environ(), "HEADRACE_STATE_DIR="+filepath.Join(c.dir, "state"))
	var err error
	if c.cache, err = pagecache.New(pagecache.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cache.Close() })
	c.startManager()
	c.startNode()
	return c
}

func (c *hdfsCluster) token() string { return filepath.Join(c.dir, "token") }

func (c *hdfsCluster) startManager() {
	c.manager, c.addr = launch(c.t, c.env, `the manager is up" address=(\S+)`,
		append([]string{c.headrace, "manager", "--listen", c.addr, "--token-file", c.token()}, c.asked...)...)
}

func (c *hdfsCluster) startNode() {
	c.node = c.launchNode(c.env, "--name", "here", "--hdfs-site", c.hdfs.Site(), "--hdfs-host", "127.0.0.1", "--warm-budget", "64MB")
}

func (c *hdfsCluster) launchNode(env []string, flags ...string) *process {
	p, _ := launch(c.t, env, "the daemon is up", append([]string{c.headrace, "node", "--manager", "http://" + c.addr, "--token-file", c.token()}, flags...)...)
	return p
}

// write makes a file of so many bytes.
func (c *hdfsCluster) write(path string, size int, mode os.FileMode) {
	c.t.Helper()
	fs, err := hdfs.New(c.superuser)
	if err == nil {
		err = fs.MkdirAll(c.t.Context(), filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = fs.Create(c.t.Context(), path, mode, func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("water "), size/6+1)[:size])
			return err
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// blockFiles finds the files of all blocks, data and checksums.
func (c *hdfsCluster) blockFiles() (paths []string) {
	c.t.Helper()
	err := filepath.WalkDir(filepath.Join(filepath.Dir(c.hdfs.Site()), "data"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "blk_") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return paths
}

// resident returns how many bytes of blocks are in memory, and of how many.
func (c *hdfsCluster) resident() (in, of int64) {
	c.t.Helper()
	for _, path := range c.blockFiles() {
		f, err := os.Open(path)
		if err != nil {
			c.t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			c.t.Fatal(err)
		}
		n, err := c.cache.Resident(f, pagecache.Range{Len: st.Size()})
		f.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		in, of = in+n, of+st.Size()
	}
	return in, of
}

// run runs a command of ours and returns what it writes.
func (c *hdfsCluster) run(args ...string) (out, errs string, err error) {
	cmd := exec.CommandContext(c.t.Context(), c.headrace, args...)
	var o, e bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

func (c *hdfsCluster) must(args ...string) string {
	c.t.Helper()
	out, errs, err := c.run(args...)
	if err != nil {
		log, _ := c.node.log.read()
		more, _ := c.manager.log.read()
		c.t.Fatalf("headrace %q: %v\n%s%s\nnode:\n%s\nmanager:\n%s", args, err, out, errs, log, more)
	}
	return out
}

// inputs returns what is kept for whom.
func (c *hdfsCluster) inputs() []*wire.InputsStatus {
	c.t.Helper()
	raw := c.must("cluster", "jobs", "--manager", "http://"+c.addr, "--token-file", c.token(), "--format", "json")
	var list struct {
		Inputs []struct {
			Job, User, State              string
			Bytes, Pinned, Resident, Left json.Number
			ReadMemory, ReadDisk          json.Number
			Failed                        uint32
		}
	}
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		c.t.Fatalf("%v: %s", err, raw)
	}
	var all []*wire.InputsStatus
	number := func(n json.Number) int64 { v, _ := n.Int64(); return v }
	for _, s := range list.Inputs {
		all = append(all, &wire.InputsStatus{Job: s.Job, User: s.User, State: s.State, Failed: s.Failed,
			Bytes: number(s.Bytes), Pinned: number(s.Pinned), Resident: number(s.Resident), Left: number(s.Left),
			ReadMemory: number(s.ReadMemory), ReadDisk: number(s.ReadDisk)})
	}
	return all
}

// known is inputs without the start of a command, for who asks again and again; nothing if the manager does
// not answer.
func (c *hdfsCluster) known() []*wire.InputsStatus {
	c.t.Helper()
	list, err := c.api().Inputs(c.t.Context(), &wire.InputsRequest{User: "root"})
	if err != nil {
		return nil
	}
	return list.Inputs
}

// api returns a client of the manager.
func (c *hdfsCluster) api() wireconnect.InputServiceClient {
	c.t.Helper()
	if c.client == nil {
		raw, err := os.ReadFile(c.token())
		if err == nil {
			c.client, err = node.NewInputClient("http://"+c.addr, strings.TrimSpace(string(raw)), "")
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return c.client
}

// await waits until one job is as it is to be.
func (c *hdfsCluster) await(what string, is func(*wire.InputsStatus) bool) {
	c.t.Helper()
	var last []*wire.InputsStatus
	testkit.Await(c.t, what, func() bool {
		last = c.known()
		return len(last) == 1 && is(last[0])
	}, &last)
}

// TestRealHDFS has files of a real HDFS warmed, followed and let go, while manager, node
// and a block come to an end.
func TestRealHDFS(t *testing.T) {
	t.Parallel()
	c := newHDFSCluster(t)
	const day = 3*hdfsBlock + 123_456
	c.write("/data/day1/a", day, 0o644)
	c.write("/data/day1/b", day, 0o644)
	c.write("/data/day1/_SUCCESS", 100, 0o644)
	c.write("/private/c", 1000, 0o600)
	before := c.blockFiles()
	for _, path := range before {
		testkit.DropFile(t, path)
	}
	if in, of := c.resident(); in > of/10 {
		t.Fatalf("%d of %d bytes are in memory at the beginning", in, of)
	}

	if out := c.must("cache", "hdfs://test/data/day1"); !strings.Contains(out, "hdfs://test/data/day1/a") || !strings.Contains(out, "0 %") || strings.Contains(out, "_SUCCESS") {
		t.Errorf("cache of what is cold:\n%s", out)
	}
	out := c.must("warm", "--wait", "--job", "application_1", "hdfs://test/data/day1")
	if !strings.Contains(out, "application_1: 2 files, 6.5 MB in 8 blocks: 6.5 MB in memory") {
		t.Errorf("warm: %s", out)
	}
	if in, of := c.resident(); in < of-10_000 { // but for the two files that were not asked for
		t.Errorf("%d of %d bytes are in memory", in, of)
	}
	warm := func(s *wire.InputsStatus) bool {
		return s.State == "done" && s.Pinned+s.Resident == 2*day && s.User == "root" && s.Failed == 0
	}
	c.await("all of it to be kept", warm)
	if out := c.must("cache", "hdfs://test/data/day1/{a,b}"); !strings.Contains(out, "100 %") || !strings.Contains(out, "here ") || !strings.Contains(out, "; for application_1 of root)") {
		t.Errorf("cache of what is warm:\n%s", out)
	}

	c.manager.end(t, syscall.SIGKILL)
	c.startManager()
	c.await("what is kept to be known to another manager", func(s *wire.InputsStatus) bool { return s.State == "adopted" && s.Pinned+s.Resident == 2*day })
	c.must("warm", "--wait", "--job", "application_1", "hdfs://test/data/day1")
	c.await("it to be known in full again", warm)

	c.node.end(t, syscall.SIGKILL)
	for _, path := range before {
		testkit.DropFile(t, path)
	}
	c.startNode()
	// What the manager says may be from before.
	testkit.Await(t, "another node daemon to read it", func() bool { in, of := c.resident(); return in >= of-10_000 })
	c.await("that to be known", func(s *wire.InputsStatus) bool { return warm(s) && s.Pinned == 2*day })

	// Whoever may not read a file learns nothing of it.
	api := c.api()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if st, err := api.Warm(ctx, &wire.WarmInputsRequest{User: "alice", Paths: []string{"hdfs://test/private/c"}}); err == nil {
		t.Errorf("a stranger warms a private file: %v", st)
	}
	if list, err := api.Inputs(ctx, &wire.InputsRequest{User: "alice"}); err != nil || len(list.Inputs) != 0 {
		t.Errorf("a stranger sees %v, %v", list, err)
	}
	if _, err := api.Cool(ctx, &wire.CoolInputsRequest{User: "alice", Jobs: []string{"application_1"}}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a stranger ends a job's: %v", err)
	}
	for _, args := range [][]string{{"warm", "hdfs://test/nowhere"}, {"warm", "hdfs://other/data"}, {"cache", "hdfs://test/data/none*"}, {"warm", "hdfs://test/data", "/tmp"}} {
		if out, errs, err := c.run(args...); err == nil || errs == "" {
			t.Errorf("headrace %q: %v, %s%s", args, err, out, errs)
		}
	}

	if out := c.must("warm", "--evict", "--job", "application_1", "hdfs://test/data/day1"); !strings.Contains(out, "1 request ended") {
		t.Errorf("evict: %s", out)
	}
	testkit.Await(t, "everything to be let go", func() bool {
		info, err := hostInfo(ctx, c)
		return err == nil && info.Pinned == 0 && len(c.inputs()) == 0
	})
	c.reads(ctx, api)
}

// reads has files read that are in memory, and looks whether that is noticed.
func (c *hdfsCluster) reads(ctx context.Context, api wireconnect.InputServiceClient) {
	t := c.t
	if method, why := c.cache.Method(); method != pagecache.BPF || !pagecache.SeesReads() {
		t.Logf("what is read is not seen here: %s %s, %t", method, why, pagecache.SeesReads())
		return
	}
	const size = 2*hdfsBlock + 321
	before := c.blockFiles()
	c.write("/data/once", size, 0o644)
	files := slices.DeleteFunc(c.blockFiles(), func(path string) bool {
		return slices.Contains(before, path) || strings.HasSuffix(path, ".meta")
	})
	c.must("warm", "--wait", "--job", "application_7", "hdfs://test/data/once")
	fs, err := hdfs.New(c.superuser)
	if err != nil {
		t.Fatal(err)
	}
	read := func() { // through the data node
		r, err := fs.Open(ctx, "/data/once")
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read()
	c.await("what was read to be counted", func(s *wire.InputsStatus) bool {
		return s.ReadMemory == size && s.ReadDisk == 0 && s.Pinned+s.Resident == size
	})
	c.must("warm", "--evict", "--job", "application_7", "hdfs://test/data/once")

	q := &wire.WarmInputsRequest{User: "root", Job: "application_8", Paths: []string{"hdfs://test/data/once"}, Implicit: true}
	if _, err := api.Warm(ctx, q); err != nil {
		t.Fatal(err)
	}
	c.await("it to be kept", func(s *wire.InputsStatus) bool { return s.State == "done" && s.Pinned+s.Resident == size })
	for _, path := range files { // as a reader does that a data node has given the file to
		if out, err := exec.Command("cat", path).Output(); err != nil || len(out) == 0 {
			t.Fatalf("%v, %d bytes", err, len(out))
		}
	}
	c.await("what was read to be let go", func(s *wire.InputsStatus) bool { return s.ReadMemory == size && s.Pinned+s.Resident == 0 })
}

func hostInfo(ctx context.Context, c *hdfsCluster) (*wire.NodeInfo, error) {
	d, err := (&app{stateDir: filepath.Join(c.dir, "state")}).daemon()
	if err != nil {
		return nil, err
	}
	return d.node.Info(ctx, &wire.InfoRequest{})
}

// TestRealWarmWaits: what waits for files to be in memory outlasts a manager that is killed
// meanwhile, and hears when its request is ended.
func TestRealWarmWaits(t *testing.T) {
	t.Parallel()
	c := newHDFSCluster(t)
	const size = 2*hdfsBlock + 5
	c.write("/data/a", size, 0o644)
	c.write("/data/b", size, 0o644)
	// The way to the manager while the other node stands still.
	env := append(slices.Clone(c.env), "HEADRACE_STATE_DIR="+filepath.Join(c.dir, "door"))
	c.launchNode(env, "--name", "door")
	c.node.cmd.Process.Signal(syscall.SIGSTOP)
	defer c.node.cmd.Process.Signal(syscall.SIGCONT)
	type result struct {
		out, errs string
		err       error
	}
	warm := func(args ...string) chan result {
		done := make(chan result, 1)
		go func() {
			cmd := exec.CommandContext(t.Context(), c.headrace, append([]string{"warm", "--wait"}, args...)...)
			var o, e bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &o, &e
			err := cmd.Run()
			done <- result{o.String(), e.String(), err}
		}()
		return done
	}
	job, hold, ended := warm("--job", "application_1", "hdfs://test/data/a"), warm("hdfs://test/data/b"), warm("--job", "application_2", "hdfs://test/data/a")
	asked := func(when string) {
		testkit.Await(t, "all to be asked for "+when, func() bool {
			queued := 0
			for _, s := range c.known() {
				if s.State == "queued" && s.Pinned+s.Resident == 0 {
					queued++
				}
			}
			return queued == 3
		})
	}
	asked("at first")
	c.manager.end(t, syscall.SIGKILL)
	c.startManager()
	asked("once more")
	cmd := exec.Command(c.headrace, "warm", "--evict", "--job", "application_2", "hdfs://test/data/a")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("evict: %v: %s", err, out)
	}
	if r := <-ended; r.err == nil || !strings.Contains(r.errs, "the request has ended") {
		t.Errorf("the one that was ended: %v, %s%s", r.err, r.out, r.errs)
	}
	c.node.cmd.Process.Signal(syscall.SIGCONT)
	for name, done := range map[string]chan result{"application_1": job, "hold-": hold} {
		if r := <-done; r.err != nil || !strings.HasPrefix(r.out, name) || !strings.Contains(r.out, "1 file, 2.1 MB in 3 blocks: 2.1 MB in memory") {
			t.Errorf("%s: %v, %s%s", name, r.err, r.out, r.errs)
		}
	}
	all := c.inputs()
	if len(all) != 2 {
		t.Errorf("%v", all)
	}
	for _, s := range all {
		if s.State != "done" || s.Pinned+s.Resident != size {
			t.Errorf("%v", s)
		}
	}
}
