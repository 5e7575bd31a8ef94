package linux

import (
	"os"
	"path/filepath"
	"testing"
)

// tree writes files below a directory that stands for "/".
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	v1Mount = "33 31 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
		"32 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	v2Mount = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
)

// ownCgroupMemory is what OwnMemory finds the first time, with root for "/".
func ownCgroupMemory(root string) (CgroupMemory, error) {
	cgroups, err := ownMemoryCgroups(root)
	if err != nil {
		return CgroupMemory{}, err
	}
	return tightest(cgroups)
}

func TestOwnCgroupMemory(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		want  CgroupMemory
	}{
		"no cgroups": {map[string]string{"proc/self/mountinfo": "", "proc/self/cgroup": ""}, CgroupMemory{}},
		"v1, limit of the parent": {map[string]string{
			"proc/self/mountinfo":                               v1Mount,
			"proc/self/cgroup":                                  "4:memory:/a/b\n1:cpu:/c\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":        "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":      "1000000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes":      "900000\n",
			"sys/fs/cgroup/memory/a/memory.stat":                "active_file 9\ntotal_active_file 200000\ntotal_inactive_file 100000\ntotal_rss 600000\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes":    "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes":    "900000\n",
			"sys/fs/cgroup/memory/a/b/memory.stat":              "",
			"sys/fs/cgroup/memory/other/memory.limit_in_bytes":  "5\n",
			"sys/fs/cgroup/cpu/c/memory.limit_in_bytes":         "5\n",
			"sys/fs/cgroup/memory/a/b/sub/memory.limit_in_byte": "5\n",
		}, CgroupMemory{"/sys/fs/cgroup/memory/a", 1000000, 400000}},
		"v1, path hidden by a namespace": {map[string]string{
			"proc/self/mountinfo":                        v1Mount,
			"proc/self/cgroup":                           "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "400\n",
			"sys/fs/cgroup/memory/memory.stat":           "",
		}, CgroupMemory{"/sys/fs/cgroup/memory", 1000, 600}},
		"v1, part of the hierarchy is mounted": {map[string]string{
			"proc/self/mountinfo":                "33 31 0:31 /docker/abc /cg\\040roup rw - cgroup cgroup rw,memory\n",
			"proc/self/cgroup":                   "4:memory:/docker/abc/task\n",
			"cg roup/task/memory.limit_in_bytes": "2000\n", "cg roup/task/memory.usage_in_bytes": "2500\n",
			"cg roup/task/memory.stat":      "",
			"cg roup/memory.limit_in_bytes": "3000\n", "cg roup/memory.usage_in_bytes": "2500\n",
			"cg roup/memory.stat": "",
		}, CgroupMemory{"/cg roup/task", 2000, 0}},
		"v2": {map[string]string{
			"proc/self/mountinfo":                                        v2Mount,
			"proc/self/cgroup":                                           "0::/system.slice/headrace.service\n",
			"sys/fs/cgroup/cgroup.controllers":                           "memory\n", // the root has no limit
			"sys/fs/cgroup/system.slice/memory.max":                      "max\n",
			"sys/fs/cgroup/system.slice/memory.high":                     "max\n",
			"sys/fs/cgroup/system.slice/headrace.service/memory.max":     "1000000\n",
			"sys/fs/cgroup/system.slice/headrace.service/memory.high":    "800000\n",
			"sys/fs/cgroup/system.slice/headrace.service/memory.current": "500000\n",
			"sys/fs/cgroup/system.slice/headrace.service/memory.stat":    "anon 100000\nfile 400000\nactive_file 100000\ninactive_file 50000\nunevictable 250000\n",
		}, CgroupMemory{"/sys/fs/cgroup/system.slice/headrace.service", 800000, 450000}},
		"v2, the limit above leaves less": {map[string]string{
			"proc/self/mountinfo":          v2Mount,
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max":   "1000\n",
			"sys/fs/cgroup/a/memory.high":  "max\n",
			"sys/fs/cgroup/a/memory.stat":  "",
			"sys/fs/cgroup/a/b/memory.max": "900\n", "sys/fs/cgroup/a/b/memory.high": "max\n",
			"sys/fs/cgroup/a/memory.current": "950\n", "sys/fs/cgroup/a/b/memory.current": "100\n",
			"sys/fs/cgroup/a/b/memory.stat": "inactive_file 99999\n",
		}, CgroupMemory{"/sys/fs/cgroup/a", 1000, 50}},
		"v2, above the namespace": {map[string]string{
			"proc/self/mountinfo":    v2Mount,
			"proc/self/cgroup":       "0::/../../other\n",
			"sys/fs/cgroup/cpu.stat": "",
		}, CgroupMemory{}},
		"a limit of nothing": {map[string]string{
			"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "0\n", "sys/fs/cgroup/a/memory.current": "10\n", "sys/fs/cgroup/a/memory.stat": "",
		}, CgroupMemory{"/sys/fs/cgroup/a", 1, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := ownCgroupMemory(tree(t, c.files)); got != c.want || err != nil {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestOwnCgroupMemoryThatCannotBeRead(t *testing.T) {
	good := map[string]string{
		"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1000\n",
		"sys/fs/cgroup/a/memory.current": "10\n", "sys/fs/cgroup/a/memory.stat": "",
	}
	for name, text := range map[string]string{"sys/fs/cgroup/a/memory.max": "much\n", "sys/fs/cgroup/a/memory.current": "-5\n"} {
		root := tree(t, good)
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := ownCgroupMemory(root); err == nil {
			t.Errorf("%s = %q: %+v", name, text, c)
		}
	}
	for _, name := range []string{"proc/self/mountinfo", "proc/self/cgroup", "sys/fs/cgroup/a/memory.stat"} {
		root := tree(t, good)
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if c, err := ownCgroupMemory(root); err == nil {
			t.Errorf("without %s: %+v", name, c)
		}
	}
}

// What the kernel of this machine says can be read.
func TestOwnCgroupMemoryHere(t *testing.T) {
	c, err := ownCgroupMemory("/")
	if err != nil || c.Free < 0 || c.Free > c.Limit {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzMemoryHierarchies(f *testing.F) {
	f.Add(v1Mount+v2Mount, "4:memory:/a/b\n0::/\n", "total_active_file 3\n")
	f.Fuzz(func(t *testing.T, mountinfo, cgroups, stat string) {
		for _, h := range memoryHierarchies(ParseMounts(mountinfo), ParseCgroups(cgroups)) {
			if len(h.start("/nonexistent")) > len(h.mount) {
				t.Errorf("%+v starts outside", h)
			}
		}
		if reclaimable(stat, "total_") < 0 {
			t.Error("negative")
		}
	})
}
