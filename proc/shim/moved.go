package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/needs"
)

// Portable is what must be known of a checkpoint, besides its images, for the task
// to go on on another machine.
type Portable struct {
	// TaskDir is the task's directory as its processes know it.
	TaskDir string
	// Needs are the files that the processes need at the same paths. What is below
	// TaskDir is not among them: another task's directory stands in for it.
	Needs needs.Files
	// Version is that of the record.
	Version int
}

// PortableOf reads it from the record that an image carries (checkpoint.Image.Meta).
// Only checkpoints of attached tasks have it.
func PortableOf(meta []byte) (Portable, error) {
	sv, err := parseSaved(meta)
	if err != nil {
		return Portable{}, err
	}
	if sv.Needs == nil || sv.TaskDir == "" {
		return Portable{}, errors.New("the checkpoint does not say what it needs on another machine; take a new one")
	}
	others := func(paths []string) []string {
		return slices.DeleteFunc(paths, func(path string) bool {
			return path == sv.TaskDir || strings.HasPrefix(path, sv.TaskDir+"/")
		})
	}
	return Portable{Version: sv.Version, TaskDir: sv.TaskDir, Needs: needs.Files{
		Mapped: others(sv.Needs.Mapped), Open: others(sv.Needs.Open), Writing: others(sv.Needs.Writing),
	}}, nil
}

// AskedOf returns the name of the request for a checkpoint (proc.CheckpointOptions.Asked), from the
// record that its image carries (checkpoint.Image.Meta); 0: it has none, or that cannot be read.
func AskedOf(meta []byte) time.Duration {
	sv, err := parseSaved(meta)
	if err != nil {
		return 0
	}
	return sv.Asked
}

// describeNeeds adds what another machine must have.
func (sv *saved) describeNeeds(tree []linux.Stat) error {
	pids := make([]int, len(tree))
	for i, p := range tree {
		pids[i] = p.PID
	}
	found, err := needs.Observe(pids)
	if err != nil {
		return err
	}
	sv.Needs = &found
	return nil
}

// movedFrom returns for which directory the task's stands in: that which is asked for, else that
// for which it did under an earlier supervisor; empty: for none.
func (t *task) movedFrom(asked string) (string, error) {
	if asked != "" || t.home.knownAs != t.home.dir {
		return asked, nil
	}
	b, err := os.ReadFile(proc.StandInFile)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// standInFor makes the task's directory appear, in this mount namespace, at the path
// of the directory of the task that is being moved here, with the files that its
// processes have open there.
func (t *task) standInFor(dir string, spec proc.Spec) error {
	switch {
	case !t.processes.isolated:
		return fmt.Errorf("restore: %w: a task can be moved by root only", proc.ErrUnsupported)
	case t.home.knownAs == dir:
		return nil
	case t.home.knownAs != t.home.dir:
		return fmt.Errorf("%w: it stands in for %s already", proc.ErrState, t.home.knownAs)
	}
	files, err := t.stdio.open(spec)
	if err != nil {
		return err
	}
	closeAll(files)
	return t.home.appearAs(dir)
}
