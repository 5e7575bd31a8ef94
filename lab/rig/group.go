package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"headrace/internal/linux/cgroup"
)

// A Group is the cgroups that the processes of a run on reading are put in: by
// what is left when they are gone it is known how much processor time all of them
// have used, those that nobody waited for included.
type Group struct {
	cpu string
	// usage is the file with the processor time, in units per second.
	usage string
	units float64
	// memory limits them; empty: no limit. It may be the same as cpu.
	memory string
}

// NewGroup makes cgroups for the scratch, with a limit unless it is 0. They may
// be there already: then the limit is changed. The removal of the scratch removes
// them.
func (s *Scratch) NewGroup(limit int64) (*Group, error) {
	g := &Group{}
	var err error
	if limit > 0 {
		if g.memory, err = s.MemoryGroup(limit); err != nil {
			return nil, err
		}
	}
	if roots := cgroup.Roots("cpuacct"); len(roots) > 0 {
		g.cpu, g.usage, g.units = filepath.Join(roots[0], cpuGroup(s.Dir)), "cpuacct.usage", 1e9
		return g, makeGroup(g.cpu)
	}
	if roots := cgroup.Roots(""); len(roots) > 0 {
		g.usage, g.units = "cpu.stat", 1e6
		if g.cpu = g.memory; g.cpu == "" || filepath.Dir(g.memory) != roots[0] {
			g.cpu = filepath.Join(roots[0], cpuGroup(s.Dir))
		}
		return g, makeGroup(g.cpu)
	}
	return nil, errors.New("count processor time: cgroups are mounted neither with cpuacct (version 1) nor as version 2")
}

func cpuGroup(dir string) string { return filepath.Base(dir) + "-cpu" }

func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return nil
}

// Enter returns cmd as it starts inside the cgroups.
func (g *Group) Enter(cmd *exec.Cmd) *exec.Cmd {
	if g.memory != g.cpu {
		cmd = enterGroup(g.memory, cmd)
	}
	return enterGroup(g.cpu, cmd)
}

// Used returns the processor time so far, in seconds.
func (g *Group) Used() (float64, error) {
	text, err := os.ReadFile(filepath.Join(g.cpu, g.usage))
	if err != nil {
		return 0, err
	}
	// Version 2 has "usage_usec N" as the first of several lines.
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return 0, fmt.Errorf("no processor time in %s", filepath.Join(g.cpu, g.usage))
	}
	v, err := strconv.ParseFloat(f[len(f)-1], 64)
	return v / g.units, err
}
