package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"headrace/proc/inspect"
	"headrace/wire"
)

// Status is how good a finding is.
type Status string

const (
	// OK: nothing needs to be done.
	OK Status = "ok"
	// Unknown: it could not be found out.
	Unknown Status = "unknown"
	// Warning: works, but not everything, or not as well as it could.
	Warning Status = "warning"
	// Missing: a part of Headrace does not work here.
	Missing Status = "missing"
)

// A Finding is what is known about one thing.
type Finding struct {
	// Name is short, lower case, and the same on every machine.
	Name   string `json:"name"`
	Status Status `json:"status"`
	// What was found, Why it matters, and How to get it: text for a person. How
	// may hold several lines, commands among them, and is empty when there is
	// nothing to do.
	What string `json:"what"`
	Why  string `json:"why"`
	How  string `json:"how,omitempty"`
}

// Options of Check. The zero value examines this machine.
type Options struct {
	// StateDir is where the daemon keeps, or will keep, its state and by default
	// its checkpoints; it need not exist. Empty: the working directory.
	StateDir string
	// Stores are the directories of its checkpoints, if they are elsewhere.
	Stores []string
	// CRIU is the path of the one that it uses. Empty: it looks for one.
	CRIU string
	// NoSmoke leaves out CRIU's smoke test.
	NoSmoke bool
	// Ask asks the daemon that runs about itself. Nil, or an error that is a wire.NoDaemonError: none runs.
	Ask func(context.Context) (*wire.NodeInfo, error)
}

// Check examines the machine. The findings come in a fixed order, the same ones
// on every machine, and then one for each of the stores. When ctx ends, what is left to find out is reported as such.
func Check(ctx context.Context, o Options) []Finding {
	if o.StateDir == "" {
		o.StateDir = "."
	}
	m := machine{root: "/", uid: os.Geteuid()}
	findings := []Finding{
		m.user(), m.accounts(), m.capabilities(), m.kernel(), criuFinding(ctx, o.CRIU, o.NoSmoke), asynchronousIO(m, inspect.CanTellRequests()), m.namespaces(ctx), m.tracing(), pidfds(),
		m.swap(), m.swappiness(), m.pageOut(ctx), m.memoryCgroup(), m.freezer(), m.taskCgroups(), m.overcommit(), m.oom(), m.reclaimers(),
		m.storage("storage", o.StateDir, len(o.Stores) == 0), m.sharedMemory(), openFiles(), m.softDirty(), m.clock(),
		m.cachestat(), m.pageCache(), m.lockedMemory(), m.diskRequests(), m.fuse(), m.loopDevices(), m.throttling(),
	}
	findings = append(findings, o.daemon(ctx)...)
	findings = append(findings, owners(o.StateDir, o.Stores, m.asRoot()))
	for _, dir := range o.Stores {
		findings = append(findings, m.storage("store", dir, true))
	}
	return findings
}

// machine is where facts come from: the files below root, and who is asking.
type machine struct {
	root string
	uid  int
}

func (m machine) path(name string) string { return filepath.Join(m.root, name) }

// read returns a file without white space around it, or "" and false.
func (m machine) read(name string) (string, bool) {
	b, err := os.ReadFile(m.path(name))
	return strings.TrimSpace(string(b)), err == nil
}

// number reads a file that holds one.
func (m machine) number(name string) (int64, bool) {
	s, ok := m.read(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// asRoot returns how to find out what an ordinary user may not read.
func (m machine) asRoot() string {
	if m.uid == 0 {
		return ""
	}
	return "sudo headrace doctor"
}

// denied reports whether a file may be there but not be read.
func (m machine) denied(name string) bool {
	f, err := os.Open(m.path(name))
	if err == nil {
		f.Close()
	}
	return errors.Is(err, os.ErrPermission)
}

func (m machine) exists(name string) bool {
	_, err := os.Stat(m.path(name))
	return err == nil
}

// sleeper returns a child for trying things on. It ends with ctx, or when stop is
// called.
func sleeper(ctx context.Context, change func(*exec.Cmd)) (cmd *exec.Cmd, stop func(), err error) {
	cmd = exec.CommandContext(ctx, "sleep", "60")
	if change != nil {
		change(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() {
		cmd.Process.Kill()
		cmd.Wait()
	}, nil
}
