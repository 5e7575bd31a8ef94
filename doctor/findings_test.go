package doctor

import (
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
	expect(t, kernelFinding("5.4.0", "amd64"), Missing, "5.4.0", "5.10")
	expect(t, kernelFinding("6.12.1", "riscv64"), Warning, "riscv64", "HEADRACE_CRIU")
	expect(t, kernelFinding("", "amd64"), Warning, "unknown version", "")
}

func TestUserAndTracing(t *testing.T) {
	expect(t, machine{uid: 0}.user(), OK, "root", "")
	expect(t, machine{uid: 1000}.user(), Warning, "user 1000", "sudo headrace solo")
	for scope, want := range map[string]Status{"0": OK, "1\n": OK, "2": OK, "3": Missing} {
		expect(t, tree(t, map[string]string{"proc/sys/kernel/yama/ptrace_scope": scope}).tracing(), want, "", "")
	}
	expect(t, tree(t, nil).tracing(), OK, "no Yama", "")
}

func TestCapabilities(t *testing.T) {
	status := func(set string) map[string]string {
		return map[string]string{"proc/self/status": "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t" + set + "\nCapBnd:\t000001ffffffffff\n"}
	}
	expect(t, tree(t, status("000001ffffffffff")).capabilities(), OK, "CAP_SYS_RESOURCE is there", "")
	expect(t, tree(t, status("000001fffeffffff")).capabilities(), Warning, "no CAP_SYS_RESOURCE", "--cap-add SYS_RESOURCE")
	expect(t, tree(t, nil).capabilities(), Warning, "unknown", "")
	expect(t, machine{root: t.TempDir(), uid: 1000}.capabilities(), OK, "ordinary user", "")
}

func TestSwapFinding(t *testing.T) {
	const g = gib
	mem := func(total, swap, free int64) linux.MemInfo {
		return linux.MemInfo{Total: total, SwapTotal: swap, SwapFree: free}
	}
	file := parseSwaps("Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swapfile                               file\t\t8388604\t\t0\t\t-2\n")
	zram := parseSwaps("/dev/zram0                              partition\t8388604\t\t1024\t\t100\n")

	expect(t, swapFinding(mem(15*g+1, 0, 0), nil), Missing, "none (memory: 15.0 GiB)", "fallocate -l 16G /swapfile")
	expect(t, swapFinding(mem(500*mib, 0, 0), nil), Missing, "500 MiB", "fallocate -l 1G")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), file), OK, "8.0 GiB, 7.0 GiB of it free (memory: 8.0 GiB; file /swapfile)", "")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), append(file, zram...)), OK, "zram0", "")
	expect(t, swapFinding(mem(8*g, 8*g, 7*g), zram), Warning, "zram0", "compressed memory")
	expect(t, swapFinding(mem(8*g, 8*g, g), file), Warning, "", "Little of it is free")
	expect(t, swapFinding(mem(32*g, 8*g, 8*g), file), Warning, "", "small beside the memory")
	if len(file) != 1 || file[0] != (swapArea{"/swapfile", "file", 8388604 << 10, 0}) || zram[0].used != mib {
		t.Errorf("parsed %v, %v", file, zram)
	}
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

func TestStorageFinding(t *testing.T) {
	mem := linux.MemInfo{Total: 16 * gib}
	expect(t, storageFinding(space{total: 100 * gib, free: 50 * gib, kind: unix.EXT4_SUPER_MAGIC}, "/var", mem), OK, "50.0 GiB free of 100.0 GiB at /var", "")
	expect(t, storageFinding(space{total: 100 * gib, free: 5 * gib}, "/var", mem), Warning, "", "--state-dir")
	expect(t, storageFinding(space{total: 100 * gib, free: 5 * mib}, "/var", mem), Missing, "5 MiB", "--state-dir")
	expect(t, storageFinding(space{total: 100 * gib, free: 50 * gib, kind: unix.TMPFS_MAGIC}, "/tmp", mem), Warning, "in memory", "reboot")
}

const v1Mounts = `proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
`

func TestCgroupsV1(t *testing.T) {
	m := tree(t, map[string]string{
		"proc/mounts":      v1Mounts,
		"proc/self/cgroup": "4:memory:/user/me\n7:blkio:/\n6:freezer:/gone\n0::/\n",
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
		"proc/mounts":      "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n",
		"proc/self/cgroup": "0::/system.slice/headrace.service\n",
		"sys/fs/cgroup/system.slice/headrace.service/cgroup.controllers":     "cpu io memory pids\n",
		"sys/fs/cgroup/system.slice/headrace.service/cgroup.subtree_control": "",
	})
	expect(t, m.memoryCgroup(), OK, "v2, writable, at "+m.path("sys/fs/cgroup/system.slice/headrace.service"), "")
	expect(t, m.throttling(), OK, "io (v2)", "")
	m.uid = 1000
	expect(t, m.throttling(), Warning, "not delegated", "Delegate=yes")
	// A plain directory has no cgroup.freeze: what cannot be seen is not there.
	expect(t, m.freezer(), Warning, "not available", "")

	none := tree(t, map[string]string{"proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu pids\n"})
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
	f.Add(v1Mounts)
	f.Add("4:memory:/user/me\n0::/\n")
	f.Add("/swap\\040file file 8388604 0 -2\n/x file -1 99999999999999999999 0")
	f.Add("6.18.44-fc-v657")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range parseSwaps(text) {
			if a.size < 0 || a.used < 0 || a.path == "" {
				t.Errorf("swap %+v", a)
			}
		}
		for _, h := range parseHierarchies(text) {
			if h.dir == "" || h.v2 != (len(h.controllers) == 0) {
				t.Errorf("hierarchy %+v", h)
			}
		}
		for c, path := range parseOwnCgroups(text) {
			if !strings.HasPrefix(path, "/") || strings.Contains(c, ":") {
				t.Errorf("cgroup %q at %q", c, path)
			}
		}
		if v, ok := parseRelease(text); ok && (v.major < 0 || v.minor < 0) {
			t.Errorf("release %+v", v)
		}
	})
}
