package shim

import (
	"fmt"
	"os"
	"path/filepath"

	"headrace/internal/criu/image"
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

// unlock lets go of the connections of a dumped task that has come back or never will. If
// that fails, it is tried again when the task is started anew or forgotten.
func unlock(dir string) {
	if err := proc.Unlock(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
