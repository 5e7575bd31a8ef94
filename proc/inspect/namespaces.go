package inspect

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"headrace/internal/linux"
)

// CRIU restores all processes in the namespaces of the first one. It looks at those of processes, not at those of single
// threads nor at those that children will have, and notices some only in the restore, when it is too late.

// namespaces are those of a thread, by their names in /proc/PID/ns.
type namespaces map[string]string

// namespacesOf reads those of a thread, of which dir is the directory below /proc; none if it has ended. A
// kernel need not have all kinds, and pid_for_children stays away while that one has no process yet.
func namespacesOf(dir string) (namespaces, error) {
	names, err := os.ReadDir(dir + "/ns")
	if linux.Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	of := make(namespaces, len(names))
	for _, n := range names {
		id, err := os.Readlink(dir + "/ns/" + n.Name())
		if err != nil && !linux.Gone(err) {
			return nil, err
		}
		if err == nil {
			of[n.Name()] = id
		}
	}
	if of["pid"] == "" { // it has ended: what is left would be taken for its own
		return nil, nil
	}
	return of, nil
}

// otherNamespace returns what is lost of a process with a thread in a namespace that is not the task's.
func (task namespaces) otherNamespace(pid int) (l *Loss, err error) {
	ended := procs.ThreadStates(pid, func(tid int, state byte) bool {
		if linux.Dead(state) {
			return true
		}
		var of namespaces
		if of, err = namespacesOf(fmt.Sprintf("/proc/%d/task/%d", pid, tid)); of == nil {
			return err == nil
		}
		for name, want := range task {
			if of[name] != want {
				kind, _, _ := strings.Cut(name, "_")
				l = &Loss{Has: fmt.Sprintf("a %s namespace of its own (a container, a sandbox, a browser, unshare), which cannot be restored", kind)}
			}
		}
		return l == nil
	})
	return l, errors.Join(err, ended)
}
