package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headrace/internal/linux"
)

// A dump of a task with connections makes a table of nftables that holds their packets back,
// until that image is restored: else the kernel would reset connections whose sockets are
// gone. The table is called by the run of CRIU, and does not outlive the boot.
//
// What is known of it is noted in the directory of the task. CRIU says by its image only
// what its run is called. Until then the table is known by what it holds back: a CRIU that
// is killed says nothing.
const (
	// lockingFile is there from the beginning of a dump on; see locking.
	lockingFile = "locking"
	// lockedFile is there when CRIU has made the image, and names the boot and its run.
	lockedFile = "locked"
)

// locking is what is known of a table before it is made.
type locking struct {
	Boot string `json:"boot"`
	// Tables are those that there were.
	Tables []string `json:"tables"`
	// Connections are those of the task.
	Connections []linux.Connection `json:"connections"`
}

// NoteLocking notes, in the directory of a task, that a dump begins which holds back the
// packets of these connections.
func NoteLocking(dir string, connections []linux.Connection) error {
	// Until now the task ran, with its connections.
	if err := Unlock(dir); err != nil {
		return err
	}
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	tables, err := linux.Tables()
	if err != nil {
		return err
	}
	b, err := json.Marshal(locking{boot, tables, connections})
	if err != nil {
		return err
	}
	return linux.ReplaceFile(filepath.Join(dir, lockingFile), b, 0o600)
}

// NoteLocked notes, in the directory of a task, the run of CRIU that has made a dump, before
// that is committed.
func NoteLocked(dir, run string) error {
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	return linux.ReplaceFile(filepath.Join(dir, lockedFile), []byte(boot+" "+run), 0o600)
}

// Unlock lets the packets pass of connections that the task with that directory had when it
// was dumped. Call it when the dump has failed, when the task has come back, or will not any
// more: the kernel tells the other ends of what is gone, and their ports are free for others.
func Unlock(dir string) error {
	err := errors.Join(unlock(filepath.Join(dir, lockedFile), tablesOfRun), unlock(filepath.Join(dir, lockingFile), tablesSince))
	if err != nil {
		return fmt.Errorf("let packets of the task's connections pass again: %w", err)
	}
	return nil
}

// unlock deletes the tables of which a note tells, and the note.
func unlock(path string, tables func(note []byte, boot string) ([]string, error)) error {
	note, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	names, err := tables(note, boot)
	for _, name := range names {
		err = errors.Join(err, linux.DeleteTable(name))
	}
	if err != nil {
		return err
	}
	return removeFile(path)
}

// tablesOfRun returns how the table may be called of which a lockedFile tells.
func tablesOfRun(note []byte, boot string) ([]string, error) {
	if was, run, _ := strings.Cut(string(note), " "); was == boot {
		return []string{tableOf(run, true), tableOf(run, false)}, nil
	}
	return nil, nil
}

// tablesSince returns the tables of CRIU's that were made since a lockingFile was written,
// and that hold back connections of the task and nothing else: those of other tasks, which
// are dumped meanwhile, are none of them. A table that holds back nothing may be that of
// another task too; it does no harm.
func tablesSince(note []byte, boot string) (found []string, err error) {
	var was locking
	if json.Unmarshal(note, &was) != nil || was.Boot != boot {
		return nil, nil // what the machine has not written in full is of an earlier boot
	}
	now, err := linux.Tables()
	if err != nil {
		return nil, err
	}
	for _, name := range now {
		if !strings.HasPrefix(name, tablePrefix) || slices.Contains(was.Tables, name) {
			continue
		}
		held, err := heldBack(name)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 && !slices.ContainsFunc(held, was.isOther) {
			found = append(found, name)
		}
	}
	return found, nil
}

// isOther reports whether a connection is none of the task's.
func (l locking) isOther(c linux.Connection) bool {
	return !slices.Contains(l.Connections, c) && !slices.Contains(l.Connections, c.Reversed())
}

// heldBack returns the connections that a table of CRIU's holds back, in either direction.
func heldBack(table string) (list []linux.Connection, err error) {
	for _, set := range []string{"conns4", "conns6"} { // nftables_init_connection_lock in its netfilter.c
		some, err := linux.InSet(table, set)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// tablePrefix is what the names of all tables of CRIU's begin with.
const tablePrefix = "CRIU-"

// tableOf returns how a run of CRIU calls its table (nftables_get_table in CRIU's
// netfilter.c). CRIU 4.2 keeps "inet NAME" in 32 bytes, and no more of the name.
func tableOf(run string, cut bool) string {
	const most = 31 - len("inet ")
	name := tablePrefix + run
	if cut && len(name) > most {
		name = name[:most]
	}
	return name
}
