package linux

import (
	"maps"
	"os"
	"testing"
)

func TestCgroupDirs(t *testing.T) {
	const mountinfo = `25 20 0:22 / /sys rw shared:7 - sysfs sysfs rw
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 /box /sys/fs/cgroup/my\040memory rw - cgroup cgroup rw,memory
33 25 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
34 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
nonsense
`
	const groups = `5:memory:/box/yarn/container_1
4:cpu,cpuacct:/yarn/container_1
3:pids:/not/mounted
2:name=systemd:/
1:freezer
0::/user.slice
`
	want := map[string]string{
		"memory":       "/sys/fs/cgroup/my memory/yarn/container_1",
		"cpu,cpuacct":  "/sys/fs/cgroup/cpu,cpuacct/yarn/container_1",
		"name=systemd": "/sys/fs/cgroup/systemd",
		"":             "/sys/fs/cgroup/unified/user.slice",
	}
	if got := cgroupDirs(ParseCgroups(groups), ParseMounts(mountinfo)); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	outside := cgroupDirs(ParseCgroups("5:memory:/elsewhere\n"), ParseMounts(mountinfo))
	if len(outside) != 0 {
		t.Errorf("a cgroup that is not below the mount: %v", outside)
	}
}

func TestCgroupDirsOfThisProcess(t *testing.T) {
	dirs, err := CgroupDirs(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range dirs {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			t.Errorf("hierarchy %q: %s: %v", name, dir, err)
		}
	}
}

func FuzzCgroupDirs(f *testing.F) {
	f.Add("4:memory:/a\n0::/\n", "1 2 0:1 / /cg rw - cgroup cgroup rw,memory\n")
	f.Fuzz(func(t *testing.T, groups, mounts string) { cgroupDirs(ParseCgroups(groups), ParseMounts(mounts)) })
}
