package doctor

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestTaskCgroups: one line says which controllers tasks have, in which version, and
// what is not so without the others.
func TestTaskCgroups(t *testing.T) {
	v2 := map[string]string{
		"proc/self/mountinfo":                 v2Mount,
		"proc/self/cgroup":                    "0::/me\n",
		"sys/fs/cgroup/me/cgroup.controllers": "cpu io memory pids",
		"sys/fs/cgroup/me/io.weight":          "default 100",
	}
	with := func(m map[string]string, name, text string) map[string]string {
		m = maps.Clone(m)
		m[name] = text
		return m
	}
	f := tree(t, v2).taskCgroups()
	expect(t, f, Warning, "memory v2, cpu v2, pids v2, io v2, no freezer (", "docker run")

	delete(v2, "sys/fs/cgroup/me/io.weight")
	f = tree(t, with(v2, "sys/fs/cgroup/me/other/io.stat", "")).taskCgroups()
	expect(t, f, Warning, "no io (--io-weight is no share)", "")
	f = tree(t, with(v2, "sys/fs/cgroup/me/cgroup.controllers", "cpu")).taskCgroups()
	expect(t, f, Warning, "cpu v2, no memory (--memory is no limit), no pids", "")
	if strings.Contains(f.What, "memory v") {
		t.Errorf("there is no memory controller: %s", f.What)
	}

	inside := with(with(v2, "sys/fs/cgroup/me/cgroup.type", "domain"), "sys/fs/cgroup/me/cgroup.procs", "1\n")
	expect(t, tree(t, inside).taskCgroups(), Warning, "no memory (--memory is no limit), no cpu", "")
	expect(t, tree(t, with(inside, "sys/fs/cgroup/me/cgroup.subtree_control", "memory")).taskCgroups(), Warning, "memory v2, no cpu", "")
	expect(t, tree(t, with(inside, "sys/fs/cgroup/cgroup.controllers", "cpu memory")).taskCgroups(), Warning, "memory v2, cpu v2", "")

	mounts := ""
	for _, c := range []string{"cpu", "freezer", "memory", "pids", "blkio"} {
		mounts += fmt.Sprintf("31 30 0:27 / /cg/%s rw - cgroup cgroup rw,%s\n", c, c)
	}
	v1 := map[string]string{
		"proc/self/mountinfo": mounts,
		"proc/self/cgroup":    "5:blkio:/\n4:pids:/\n3:memory:/\n2:freezer:/\n1:cpu:/\n",
		"cg/cpu/tasks":        "",
		"cg/freezer/tasks":    "",
		"cg/memory/tasks":     "",
		"cg/pids/tasks":       "",
		"cg/blkio/tasks":      "",
	}
	expect(t, tree(t, v1).taskCgroups(), OK, "memory v1, cpu v1, pids v1, freezer v1, no io (--io-weight is no share)", "")
	expect(t, tree(t, nil).taskCgroups(), Warning, "no memory (--memory is no limit), no cpu", "docker run")
}
