package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/proc/inspect"
)

func TestPageCacheFinding(t *testing.T) {
	m := tree(t, nil)
	expect(t, m.pageCacheFinding(pagecache.BPF, ""), OK, "followed", "")
	expect(t, m.pageCacheFinding(pagecache.Cachestat, "not permitted"), Warning, "polled instead of followed: not permitted", "CONFIG_DEBUG_INFO_BTF")
	expect(t, m.pageCacheFinding(pagecache.None, "too old"), Warning, "nothing is known about it: too old", "6.5")
}

func TestDiskRequestsFinding(t *testing.T) {
	m := tree(t, nil)
	expect(t, m.diskRequestsFinding(disk.BPF, ""), OK, "seen", "")
	expect(t, m.diskRequestsFinding(disk.Diskstats, "not permitted"), Warning, "seeks are not: not permitted", "CONFIG_DEBUG_INFO_BTF")
	expect(t, m.diskRequestsFinding("", "no such file"), Warning, "no such file", "/proc")
}

func TestAsynchronousIOFinding(t *testing.T) {
	missing := &linux.MissingError{Feature: "a count", Need: "a right", Err: syscall.EPERM}
	release := func(s string) machine { return tree(t, map[string]string{"proc/sys/kernel/osrelease": s}) }
	expect(t, asynchronousIO(release("6.1.0"), nil), OK, "counted", "")
	expect(t, asynchronousIO(release("6.1.0"), missing), Warning, "needs a right", "CONFIG_DEBUG_INFO_BTF")
	expect(t, asynchronousIO(release("5.15.0-100-generic"), missing), Warning, "needs a right", "5.19")
	expect(t, asynchronousIO(release("6.1.0"), syscall.EMFILE), Unknown, "too many open files", "")
}

func TestHowToTrace(t *testing.T) {
	status := func(set string) string { return "Name:\tx\nCapEff:\t" + set + "\n" }
	const btf = "sys/kernel/btf/vmlinux"
	for _, c := range []struct {
		files map[string]string
		uid   int
		want  string
	}{
		{nil, 1000, "Run the daemon as root: it needs CAP_BPF and CAP_PERFMON."},
		{map[string]string{"proc/self/status": status("0000000000000000")}, 0, "Missing: CAP_BPF, CAP_PERFMON."},
		{map[string]string{"proc/self/status": status("0000008000000000")}, 0, "Missing: CAP_PERFMON."},
		{map[string]string{"proc/self/status": status("0000004000000000")}, 0, "Missing: CAP_BPF."},
		{map[string]string{"proc/self/status": status("0000000000200000"), btf: ""}, 0, "CONFIG_BPF_SYSCALL"}, // CAP_SYS_ADMIN stands for both
		{map[string]string{"proc/self/status": status("000001ffffffffff")}, 0, "CONFIG_DEBUG_INFO_BTF"},
		{map[string]string{btf: "", "sys/kernel/security/lockdown": "none integrity [confidentiality]\n"}, 0, "locked down"},
		{map[string]string{btf: "", "sys/kernel/security/lockdown": "[none] integrity confidentiality\n"}, 0, "seccomp"},
	} {
		m := tree(t, c.files)
		m.uid = c.uid
		expect(t, m.pageCacheFinding(pagecache.Cachestat, "x"), Warning, "", c.want)
		expect(t, m.diskRequestsFinding(disk.Diskstats, "x"), Warning, "", c.want)
	}
}

func TestLockedMemoryFinding(t *testing.T) {
	limits := func(lock int64, cgroup linux.CgroupMemory) pagecache.Limits {
		return pagecache.Limits{Memory: 16 * gib, Lock: lock, Cgroup: cgroup}
	}
	none := linux.CgroupMemory{}
	small := linux.CgroupMemory{Dir: "/small", Limit: 128 * mib, Free: 64 * mib}
	var root machine
	user := machine{uid: 1000}
	expect(t, root.lockedMemoryFinding(limits(pagecache.Unlimited, none)), OK, "4.0 GiB by default, up to 12.0 GiB", "")
	expect(t, user.lockedMemoryFinding(limits(2*gib, none)), OK, "2.0 GiB by default, up to 2.0 GiB", "")
	expect(t, user.lockedMemoryFinding(limits(8*mib, none)), Warning, "up to 8 MiB only (RLIMIT_MEMLOCK", "limits.conf")
	expect(t, root.lockedMemoryFinding(limits(0, none)), Warning, "up to 0 MiB only (RLIMIT_MEMLOCK", "ulimit -l")
	expect(t, root.lockedMemoryFinding(limits(pagecache.Unlimited, small)), Warning, "/small", "cgroup")
	expect(t, user.lockedMemoryFinding(limits(100*mib, small)), Warning, "/small", "cgroup")
	expect(t, user.lockedMemoryFinding(limits(8*mib, small)), Warning, "RLIMIT_MEMLOCK", "root")
}

func TestFuse(t *testing.T) {
	expect(t, tree(t, map[string]string{"dev/fuse": ""}).fuse(), OK, "available", "")
	expect(t, tree(t, nil).fuse(), Warning, "no such file", "modprobe fuse")
}

// An ordinary user is told what to do about each of it.
func TestReadingAsAnOrdinaryUser(t *testing.T) {
	if os.Getenv("DOCTOR_TEST_READING") != "" {
		m := machine{root: "/", uid: os.Geteuid()}
		json.NewEncoder(os.Stdout).Encode([]Finding{m.cachestat(), m.pageCache(), m.diskRequests(), m.lockedMemory(), asynchronousIO(m, inspect.CanTellRequests())})
		os.Exit(0)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestReadingAsAnOrdinaryUser$")
	cmd.Env = append(os.Environ(), "DOCTOR_TEST_READING=1", "GORACE=atexit_sleep_ms=0", "TMPDIR=/tmp")
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.Output()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("an ordinary user may not run this test: %v", err)
	}
	var findings []Finding
	if err != nil || json.Unmarshal(out, &findings) != nil || len(findings) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, f := range findings {
		t.Logf("%-14s %-7s %s. %s", f.Name, f.Status, f.What, f.How)
	}
	if tryCachestat() == nil {
		expect(t, findings[0], OK, "available", "")
		expect(t, findings[1], Warning, "polled instead of followed", "root")
	}
	expect(t, findings[2], Warning, "seeks are not", "root")
	wellFormed(t, findings[3])
	expect(t, findings[4], Warning, "CAP_BPF", "root")
}

func TestReadingAgreesWithItsPackages(t *testing.T) {
	m := machine{root: "/", uid: os.Geteuid()}
	var got, want string
	testkit.Await(t, "the same to be said", func() bool { // in a cgroup with a limit it depends on what is free just then
		l, err := pagecache.ReadLimits()
		if err != nil {
			t.Fatal(err)
		}
		got, want = fmt.Sprint(m.lockedMemory()), fmt.Sprint(m.lockedMemoryFinding(l))
		return got == want
	}, func() string { return got + ", want " + want })
	meter, err := disk.NewMeter(disk.MeterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	if got, want := m.diskRequests(), m.diskRequestsFinding(meter.Method()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
