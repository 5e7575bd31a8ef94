package rig

import (
	"fmt"
	"os"

	"headrace/cli"
)

// DefaultDir fills in a directory on a disk, if none is named.
func DefaultDir(dir *string) {
	if *dir == "" {
		*dir = os.TempDir()
		if onTmpfs(*dir) {
			*dir = "/var/tmp"
		}
	}
}

// Programs are what experiments start.
type Programs struct {
	// Headrace is the daemon, with headrace-shim beside it; empty: beside this program,
	// else on PATH.
	Headrace string
	// Lab is headrace-lab, for the workloads and the modelled disk: everybody whose
	// tasks they are has to be able to run it. Empty: this process's own.
	Lab string
}

// Find looks for those that were not given.
func (p *Programs) Find() (err error) {
	if p.Headrace == "" {
		if p.Headrace, err = cli.FindProgram("headrace"); err != nil {
			return err
		}
	}
	if p.Lab == "" {
		if p.Lab, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	return nil
}
