package yarn

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
	"headrace/lab/belong"
	"headrace/lab/slowdisk"
	"headrace/pagecache"
)

// quickDisk costs a test little time.
func quickDisk() *slowdisk.Model {
	m := slowdisk.HardDisk()
	m.Seek, m.Rotation = 100*time.Microsecond, 200*time.Microsecond
	return &m
}

// testMachines prepares machines on which nothing runs.
func testMachines(t *testing.T, o Options) *Cluster {
	t.Helper()
	needMachines(t)
	if err := slowdisk.Check(); err != nil {
		t.Skip(err)
	}
	o.Machines, o.Nodes, o.HDFS, o.Dir, o.LabProgram = true, 2, &HDFSOptions{}, t.TempDir(), testkit.Lab(t)
	o.Jars = &Jars{Java: must(exec.LookPath("sh"))(t)}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	c := newCluster(must(newInstallation(o))(t))
	t.Cleanup(func() {
		if err := c.Abandon(); err != nil {
			t.Error(err)
		}
		nothingOf(t, c)
	})
	if err := c.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// nothingOf fails when anything is left of a cluster that was stopped.
func nothingOf(t *testing.T, c *Cluster) {
	t.Helper()
	for _, pid := range must(belong.Processes(c.Dir))(t) {
		t.Errorf("left behind: %s", belong.Describe(pid))
	}
	left := []string{c.Dir, socketDir(c.Dir)}
	if root, err := cgroup.MemoryRoot(); err == nil {
		left = append(left, must(filepath.Glob(filepath.Join(root, filepath.Base(c.Dir)+"*")))(t)...)
	}
	for _, path := range left {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %s", path)
		}
	}
}

// A machine reaches another under the address that YARN and HDFS know it by, and nobody
// outside reaches either.
func TestNetworkOfMachines(t *testing.T) {
	parallel(t, 10)
	c := testMachines(t, Options{})
	var l net.Listener
	err := c.On(1, func() (err error) {
		l, err = net.Listen("tcp", c.Host(1)+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from := func(n *namespace) string {
		client := must(n.dial(t.Context(), "tcp", l.Addr().String()))(t)
		defer client.Close()
		server := must(l.Accept())(t)
		defer server.Close()
		return must(netip.ParseAddrPort(server.RemoteAddr().String()))(t).Addr().String()
	}
	for host, n := range map[string]*namespace{c.Host(0): c.machines[0].ns, c.Host(1): c.machines[1].ns, c.rmHost(): c.head} {
		if got := from(n); got != host {
			t.Errorf("%s calls as %s", host, got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String()); err == nil {
		conn.Close()
		t.Errorf("%s can be reached from outside", l.Addr())
	}
}

// What is known of files on a machine's disk, and of who pays for their pages: the basis
// of all that follows. The counters of the page cache, cachestat, mlock and fadvise work
// on them from outside the machine, by a descriptor that was opened there.
func TestDiskOfMachines(t *testing.T) {
	parallel(t, 10)
	c := testMachines(t, Options{Disk: quickDisk(), MachineMemory: 64 << 20})
	const size = 8 << 20
	name := filepath.Join(c.machines[0].at(diskName), "block")
	contents := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	var f *os.File
	err := c.On(0, func() (err error) {
		if err = os.WriteFile(name, contents, 0o644); err == nil {
			f, err = os.Open(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, want := range []bool{true, false} {
		if err := c.On(i, func() error { _, err := os.Stat(name); return err }); (err == nil) != want {
			t.Errorf("machine %d has the file of machine 0: %v", i, err)
		}
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file is seen outside")
	}
	cache := must(pagecache.New(pagecache.Config{Budget: 2 * size}))(t)
	defer cache.Close()
	method, why := cache.Method()
	t.Logf("residency by %s %s", method, why)
	if method == pagecache.None {
		t.Skip(why)
	}
	w := must(cache.Watch(f))(t)
	defer w.Close()
	resident := func(want int64) {
		t.Helper()
		asked := must(cache.Resident(f, pagecache.Range{Len: size}))(t)
		if err := cache.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if counted := w.Resident(); asked != want || counted != want {
			t.Errorf("in memory are %d bytes by cachestat, %d by counting; want %d", asked, counted, want)
		}
	}
	drop := func() {
		t.Helper()
		if err := c.DropDisk(0); err != nil {
			t.Fatal(err)
		}
		c.Disk(0).Reset()
	}
	drop()
	resident(0)
	if got := memoryStat(t, c.MemoryGroup(0)); got > size/4 {
		t.Errorf("an empty machine has %d bytes of page cache", got)
	}
	// Whoever touches a page first pays: here a process of the machine.
	cat := exec.Command("cat", name)
	if err := c.Start(0, cat); err != nil {
		t.Fatal(err)
	}
	if err := cat.Wait(); err != nil {
		t.Fatal(err)
	}
	resident(size)
	if got := memoryStat(t, c.MemoryGroup(0)); got < size {
		t.Errorf("the machine has %d bytes of page cache; its process has read %d", got, size)
	}
	if read := c.Disk(0).Stats().Read; read < size || read > size+size/4 {
		t.Errorf("the disk has read %d bytes, want %d", read, size)
	}
	drop()
	resident(0)
	// There somebody outside.
	pin := must(cache.Pin(t.Context(), f, pagecache.Range{Len: size}, nil))(t)
	resident(size)
	if err := c.DropDisk(0); err != nil {
		t.Fatal(err)
	}
	resident(size)
	if got := memoryStat(t, c.MemoryGroup(0)); got > size/4 {
		t.Errorf("the machine has %d bytes of page cache that somebody else has read", got)
	}
	before := c.Disk(0).Stats().Read
	if text := must(os.ReadFile("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))))(t); !bytes.Equal(text, contents) {
		t.Error("a file that is locked in memory reads otherwise")
	}
	if read := c.Disk(0).Stats().Read - before; read != 0 {
		t.Errorf("the disk has read %d bytes of a file that is locked in memory", read)
	}
	if err := pin.Release(); err != nil {
		t.Fatal(err)
	}
	if other := c.Disk(1).Stats().Read; other != 0 {
		t.Errorf("the other disk has read %d bytes", other)
	}
}

// memoryStat returns the page cache of a cgroup, in bytes.
func memoryStat(t *testing.T, group string) int64 {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(group, "memory.stat")))(t))) {
		f := strings.Fields(line)
		if len(f) == 2 && slices.Contains([]string{"total_cache", "file"}, f[0]) {
			return must(strconv.ParseInt(f[1], 10, 64))(t)
		}
	}
	t.Fatalf("%s does not say how much page cache there is", group)
	return 0
}

// A machine does not get more memory than it has: page cache gives way, and who needs more
// than that is killed, on that machine only.
func TestMemoryOfMachines(t *testing.T) {
	parallel(t, 10)
	const memory = 32 << 20
	c := testMachines(t, Options{Disk: quickDisk(), MachineMemory: memory})
	name := filepath.Join(c.machines[0].at(diskName), "large")
	for _, step := range []struct {
		command string
		fine    bool
	}{
		{"head -c 96M /dev/zero > " + name, true},
		{"cat " + name + " > /dev/null", true},
		{"head -c 128M /dev/zero | tail -c 96M > /dev/null", false}, // tail keeps as much in memory
		{"cat " + name + " > /dev/null", true},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", step.command)
		out := new(strings.Builder)
		cmd.Stderr = out
		if err := c.Start(0, cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); (err == nil) != step.fine {
			t.Errorf("%s: %v %s", step.command, err, out)
		}
		if got := memoryStat(t, c.MemoryGroup(0)); got > memory {
			t.Errorf("after %s the machine has %d bytes of page cache, more than its memory", step.command, got)
		}
	}
	kills := []int64{}
	for i := range c.Nodes() {
		kills = append(kills, cgroup.Group{Memory: c.MemoryGroup(i)}.OOMKills())
	}
	if kills[0] == 0 || kills[1] != 0 { // the kernel may kill another of that command while the first is slow to end
		t.Errorf("processes killed for lack of memory on each machine: %v, want some and none", kills)
	}
}
