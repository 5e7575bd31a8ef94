package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// tree makes a machine out of files.
func tree(t *testing.T, files map[string]string) machine {
	t.Helper()
	m := machine{root: t.TempDir()}
	for name, text := range files {
		p := m.path(name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func expect(t *testing.T, f Finding, status Status, what, how string) {
	t.Helper()
	wellFormed(t, f)
	if f.Status != status || !strings.Contains(f.What, what) || !strings.Contains(f.How, how) {
		t.Errorf("%s: %s, %q, %q; want %s, %q, %q", f.Name, f.Status, f.What, f.How, status, what, how)
	}
}

func TestKernelFinding(t *testing.T) {
	expect(t, kernelFinding("6.18.44-fc", "amd64"), OK, "6.18.44-fc on amd64", "")
	expect(t, kernelFinding("6.5.0", "arm64"), OK, "arm64", "")
	expect(t, kernelFinding("6.1.0-35-amd64", "amd64"), Warning, "6.1.0", "6.5")
	expect(t, kernelFinding("5.4.0", "amd64"), Missing, "5.4.0", "5.11")
	expect(t, kernelFinding("5.10.0-32-amd64", "amd64"), Missing, "5.10.0", "5.11")
	expect(t, kernelFinding("5.11.0", "amd64"), Warning, "5.11.0", "6.5")
	expect(t, kernelFinding("6.12.1", "riscv64"), Warning, "riscv64", "HEADRACE_CRIU")
	expect(t, kernelFinding("", "amd64"), Unknown, "unknown version", "")
}

func TestUserAndTracing(t *testing.T) {
	expect(t, tree(t, nil).user(), OK, "root", "")
	for text, want := range map[string]struct {
		status Status
		what   string
	}{
		"         0          0 4294967295\n":                  {OK, "root"},
		"         0       1000          1\n":                  {Warning, "namespace with one user"},
		"         0       1000          1\n 1 100000 65536\n": {Warning, "65537 users"},
		"nonsense": {OK, "root"},
	} {
		expect(t, tree(t, map[string]string{"proc/self/uid_map": text}).user(), want.status, want.what, "")
	}
	expect(t, machine{uid: 1000}.user(), Warning, "user 1000", "sudo headrace solo")
	for scope, want := range map[string]Status{"0": OK, "1\n": OK, "2": OK, "3": Missing} {
		expect(t, tree(t, map[string]string{"proc/sys/kernel/yama/ptrace_scope": scope}).tracing(), want, "", "")
	}
	expect(t, tree(t, nil).tracing(), OK, "no Yama", "")
}

func TestAccounts(t *testing.T) {
	expect(t, tree(t, map[string]string{"etc/nsswitch.conf": "passwd: files\n"}).accounts(), OK, "in local files", "")
	expect(t, accountsFinding([]string{"sss"}, nil), OK, "by getent in sss", "")
	expect(t, accountsFinding([]string{"sss"}, errors.New("getent is missing")), Warning, "getent is missing", "libc-bin")
}

func TestCapabilities(t *testing.T) {
	status := func(set string) map[string]string {
		return map[string]string{"proc/self/status": "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t" + set + "\nCapBnd:\t000001ffffffffff\n"}
	}
	expect(t, tree(t, status("000001ffffffffff")).capabilities(), OK, "CAP_SYS_RESOURCE is there", "")
	expect(t, tree(t, status("000001fffeffffff")).capabilities(), Missing, "no CAP_SYS_RESOURCE", "--cap-add SYS_RESOURCE")
	expect(t, tree(t, nil).capabilities(), Unknown, "does not tell", "")
	expect(t, machine{root: t.TempDir(), uid: 1000}.capabilities(), Unknown, "ordinary user", "sudo headrace doctor")
}

func TestSwapFinding(t *testing.T) {
	const g = gib
	mem := func(total, swap, free int64) linux.MemInfo {
		return linux.MemInfo{Total: total, SwapTotal: swap, SwapFree: free}
	}
	file := linux.ParseSwaps("Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swapfile                               file\t\t8388604\t\t0\t\t-2\n")
	zram := linux.ParseSwaps("/dev/zram0                              partition\t8388604\t\t1024\t\t100\n")

	expect(t, swapFinding(mem(15*g+1, 0, 0), nil), Warning, "none (memory: 15.0 GiB)", "fallocate -l 16G /swapfile")
	expect(t, swapFinding(mem(500*mib, 0, 0), nil), Warning, "500 MiB", "fallocate -l 1G")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), file), OK, "8.0 GiB, 7.0 GiB of it free (memory: 8.0 GiB; file /swapfile)", "")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), append(file, zram...)), OK, "zram0", "")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), zram), Warning, "zram0", "compressed memory")
	expect(t, swapFinding(mem(8*g, 8*g, g), file), Warning, "", "Little of it is free")
	expect(t, swapFinding(mem(32*g, 8*g, 8*g), file), Warning, "", "small beside the memory")
}

func TestSettings(t *testing.T) {
	expect(t, tree(t, map[string]string{"proc/sys/vm/swappiness": "60\n"}).swappiness(), OK, "60", "")
	expect(t, tree(t, map[string]string{"proc/sys/vm/swappiness": "0\n"}).swappiness(), Warning, "= 0", "sysctl vm.swappiness")
	expect(t, tree(t, map[string]string{"proc/sys/vm/overcommit_memory": "1"}).overcommit(), OK, "1", "")
	expect(t, tree(t, map[string]string{"proc/sys/vm/overcommit_memory": "2"}).overcommit(), Warning, "strict", "sysctl")
	expect(t, tree(t, map[string]string{"proc/sys/vm/panic_on_oom": "1"}).oom(), Warning, "panics", "sysctl")
	expect(t, tree(t, map[string]string{"proc/sys/vm/panic_on_oom": "0"}).oom(), OK, "", "")
	const clock = "sys/devices/system/clocksource/clocksource0/current_clocksource"
	expect(t, tree(t, map[string]string{clock: "kvm-clock\n"}).clock(), OK, "kvm-clock", "")
	expect(t, tree(t, map[string]string{clock: "hpet\n"}).clock(), Warning, "hpet", "dmesg")
	expect(t, openFilesFinding(1024, 1<<20), OK, "1048576", "")
	expect(t, openFilesFinding(1024, 1024), Warning, "up to 1024", "LimitNOFILE")
}

func TestOOMDaemonsAreSeen(t *testing.T) {
	stat := func(pid, comm string) string {
		return pid + " (" + comm + ") S 1 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 100 1000 10 18446744073709551615 " + strings.Repeat("0 ", 26)
	}
	m := tree(t, map[string]string{"proc/1/stat": stat("1", "systemd"), "proc/7/stat": stat("7", "systemd-oomd"), "proc/sys/vm/panic_on_oom": "0"})
	expect(t, m.oom(), Warning, "systemd-oomd runs (process 7)", "ManagedOOMSwap")
}

func TestReclaimers(t *testing.T) {
	const admin = "sys/kernel/mm/damon/admin/kdamonds/"
	expect(t, tree(t, nil).reclaimers(), OK, "no proactive", "")
	expect(t, tree(t, map[string]string{
		"sys/module/damon_reclaim/parameters/enabled": "N\n", admin + "nr_kdamonds": "1\n", admin + "0/state": "off\n",
	}).reclaimers(), OK, "", "")
	f := tree(t, map[string]string{
		"sys/module/damon_reclaim/parameters/enabled": "Y\n", admin + "nr_kdamonds": "2\n", admin + "0/state": "off\n", admin + "1/state": "on\n",
	}).reclaimers()
	expect(t, f, Warning, "damon_reclaim, kdamond 1", "echo off > /sys/kernel/mm/damon/admin/kdamonds/1/state")
	expect(t, f, Warning, "", "echo N > /sys/module/damon_reclaim/parameters/enabled")
}

// What an ordinary user may not read is not reported as good.
func TestReclaimersThatCannotBeSeen(t *testing.T) {
	user := linux.Credentials{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if user.UID == 0 {
		user = linux.Credentials{UID: 65534, GID: 65534}
	}
	const module, count = "sys/module/damon_reclaim/parameters/enabled", "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"
	m := tree(t, map[string]string{module: "N\n", count: "0\n"})
	m.uid = int(user.UID)
	for _, dir := range []string{m.root, filepath.Dir(m.root)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	reclaimers := func() (f Finding) {
		if err := linux.AsUser(user, func() error { f = m.reclaimers(); return nil }); err != nil {
			t.Fatal(err)
		}
		return f
	}
	expect(t, reclaimers(), OK, "no proactive", "")
	for _, file := range []string{module, count} {
		if err := os.Chmod(m.path(file), 0); err != nil {
			t.Fatal(err)
		}
		expect(t, reclaimers(), Unknown, "/"+file, "sudo headrace doctor")
	}
}

func TestStorageFinding(t *testing.T) {
	mem := linux.MemInfo{Total: 16 * gib}
	expect(t, storageFinding("storage", space{total: 100 * gib, free: 50 * gib, kind: unix.EXT4_SUPER_MAGIC}, "/var", mem.Total), OK, "50.0 GiB free of 100.0 GiB at /var", "")
	expect(t, storageFinding("storage", space{total: 100 * gib, free: 5 * gib}, "/var", mem.Total), Warning, "", "--state-dir")
	expect(t, storageFinding("storage", space{total: 100 * gib, free: 5 * mib}, "/var", mem.Total), Missing, "5 MiB", "--state-dir")
	expect(t, storageFinding("storage", space{total: 100 * gib, free: 50 * gib, kind: unix.TMPFS_MAGIC}, "/tmp", mem.Total), Warning, "in memory", "reboot")
	expect(t, storageFinding("store", space{total: 100 * gib, free: 50 * gib, kind: unix.TMPFS_MAGIC}, "/dev/shm", mem.Total), OK, "50.0 GiB free of 100.0 GiB at /dev/shm", "")
}

const (
	v1Mounts = `22 1 0:5 / /proc rw - proc proc rw
30 1 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
33 30 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	v2Mount = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestCgroupsV1(t *testing.T) {
	m := tree(t, map[string]string{
		"proc/self/mountinfo":                                 v1Mounts,
		"proc/self/cgroup":                                    "4:memory:/user/me\n7:blkio:/\n6:freezer:/gone\n0::/\n",
		"sys/fs/cgroup/memory/user/me/cgroup.procs":           "",
		"sys/fs/cgroup/blkio/blkio.throttle.write_bps_device": "",
		"sys/fs/cgroup/freezer/cgroup.procs":                  "",
		"sys/fs/cgroup/unified/cgroup.controllers":            "",
	})
	expect(t, m.memoryCgroup(), OK, "v1, writable, at "+m.path("sys/fs/cgroup/memory/user/me"), "")
	expect(t, m.freezer(), OK, "freezer (v1)", "")
	expect(t, m.throttling(), OK, "blkio (v1)", "")
	left, _ := filepath.Glob(m.path("sys/fs/cgroup/*/*doctor*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCgroupsV2(t *testing.T) {
	m := tree(t, map[string]string{
		"proc/self/mountinfo": v2Mount,
		"proc/self/cgroup":    "0::/system.slice/headrace.service\n",
		"sys/fs/cgroup/system.slice/headrace.service/cgroup.controllers":     "cpu io memory pids\n",
		"sys/fs/cgroup/system.slice/headrace.service/cgroup.subtree_control": "",
	})
	expect(t, m.memoryCgroup(), OK, "v2, writable, at "+m.path("sys/fs/cgroup/system.slice/headrace.service"), "")
	expect(t, m.throttling(), OK, "io (v2)", "")
	m.uid = 1000
	expect(t, m.throttling(), Warning, "not delegated", "Delegate=yes")
	// A plain directory has no cgroup.freeze: what cannot be seen is not there.
	expect(t, m.freezer(), Warning, "not available", "")

	none := tree(t, map[string]string{"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu pids\n"})
	expect(t, none.memoryCgroup(), Warning, "no memory controller", "")
}

func TestSpaceAtFindsTheNearestDirectory(t *testing.T) {
	dir := t.TempDir()
	s, at, err := spaceAt(filepath.Join(dir, "not", "there"))
	if err != nil || at != dir || s.total <= 0 || s.free > s.total {
		t.Errorf("%+v, %s, %v", s, at, err)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("6.18.44-fc-v657")
	f.Fuzz(func(t *testing.T, text string) {
		if v, ok := parseRelease(text); ok && (v.major < 0 || v.minor < 0) {
			t.Errorf("release %+v", v)
		}
	})
}
