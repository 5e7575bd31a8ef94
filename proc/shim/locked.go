package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/proc"
)

// noteLocked notes by which run of CRIU the connections are locked of what was just dumped
// to the directory.
func (j dumpJob) noteLocked(dir string) error {
	if !j.Lock {
		return nil
	}
	f, err := image.Read(filepath.Join(dir, "inventory.img"))
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		if run, ok := e.Bytes(image.InventoryRunID); ok {
			return proc.NoteLocked(j.Dir, string(run))
		}
	}
	return fmt.Errorf("%s does not say which run of CRIU has made it", filepath.Join(dir, "inventory.img"))
}

// letGo lets go of the connections of the task when a dump has failed. As a rule CRIU has
// done that, but not if it was killed.
func (d dump) letGo() error {
	err := proc.Unlock(d.t.home.dir) // first, so that what the sockets send gets through
	tree, terr := d.t.processes.tree()
	if terr != nil {
		return errors.Join(err, terr)
	}
	return errors.Join(err, eachConnection(tree, func(of linux.Descriptor, _ linux.Connection) error {
		if err := linux.EndRepair(of); err != nil && !linux.Gone(err) {
			return fmt.Errorf("have the task's connection at descriptor %d of process %d go on: %w", of.FD, of.PID, err)
		}
		return nil
	}))
}

// unlock lets go of the connections of a dumped task that has come back or never will. If
// that fails, it is tried again when the task is started anew or forgotten.
func unlock(dir string) {
	if err := proc.Unlock(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
