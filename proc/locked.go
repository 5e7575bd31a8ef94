package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/linux"
)

// lockedFile is in the directory of a task that was dumped with connections, and names the
// boot and the run of CRIU. By the run a table of nftables is called that holds their packets
// back until that image is restored: else the kernel would reset connections whose sockets
// are gone. It does not outlive the boot.
const lockedFile = "locked"

// NoteLocked notes, in the directory of a task, the run of CRIU that has made a dump, before
// that is committed.
func NoteLocked(dir, run string) error {
	// Until now the task ran, with its connections.
	if err := Unlock(dir); err != nil {
		return err
	}
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, lockedFile), []byte(boot+" "+run), 0o600)
}

// Unlock lets the packets pass of connections that the task with that directory had when it
// was dumped. Call it when the task has come back, or will not any more: the kernel tells
// the other ends of what is gone, and their ports are free for others.
func Unlock(dir string) error {
	path := filepath.Join(dir, lockedFile)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	var now string
	if err == nil {
		now, err = linux.BootID()
	}
	if boot, run, _ := strings.Cut(string(b), " "); err == nil && boot == now {
		err = errors.Join(linux.DeleteTable(tableOf(run, true)), linux.DeleteTable(tableOf(run, false)))
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("let packets of the task's connections pass again: %w", err)
	}
	return nil
}

// tableOf returns how a run of CRIU calls its table (nftables_get_table in CRIU's
// netfilter.c). CRIU 4.2 keeps "inet NAME" in 32 bytes, and no more of the name.
func tableOf(run string, cut bool) string {
	const most = 31 - len("inet ")
	name := "CRIU-" + run
	if cut && len(name) > most {
		name = name[:most]
	}
	return name
}
