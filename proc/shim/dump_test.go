package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// TestStoreIsFull: whether a store is full its file system says, not CRIU's words: a user may name a file like them.
func TestStoreIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		does string
		want error
	}{
		"a file of that name":     {`echo "Error (criu/files-reg.c:1790): Can't lookup mount=7 for fd=5 path=/No space left on device"; exit 1`, proc.ErrNotCheckpointable},
		"too little of something": {`echo "Error (criu/x.c:1): Can't make it: No space left on device"; exit 1`, proc.ErrCheckpointLater},
		"no room":                 {`cat /dev/zero > "$5/pages-1.img" 2> /dev/null; echo "Error (criu/x.c:1): Can't write it"; exit 1`, proc.ErrNoSpace},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("store", dir, "tmpfs", 0, "mode=700,size=32m"); err != nil {
				t.Skip("mount:", err)
			}
			defer unix.Unmount(dir, unix.MNT_DETACH)
			program := filepath.Join(t.TempDir(), "criu")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.does+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			j := dumpJob{Dir: t.TempDir(), Memory: t.TempDir(), CRIU: program, InitPID: 2, Task: "t", Options: proc.CheckpointOptions{Store: dir}}
			if _, err := j.run(); !errors.Is(err, c.want) || errors.Is(err, proc.ErrNoSpace) != (c.want == proc.ErrNoSpace) {
				t.Errorf("%v, want %v", err, c.want)
			}
			left, err := filepath.Glob(filepath.Join(dir, "t", "*", "room-*"))
			if len(left) > 0 || err != nil {
				t.Error(left, err)
			}
		})
	}
}

// TestCRIUWasKilled: what has become of CRIU is told beside the reason of a failure, which may have a kind of its own.
func TestCRIUWasKilled(t *testing.T) {
	for name, c := range map[string]struct {
		does   string
		kind   string
		killed bool
	}{
		"killed":                              {`kill -9 $$`, "", true},
		"killed, and the store is full":       {`cat /dev/zero > "$5/pages-1.img" 2> /dev/null; kill -9 $$`, "no-space", true},
		"killed when the dump does not count": {`while [ "$1" != --action-script ]; do shift; done; CRTOOLS_SCRIPT_ACTION=post-dump "$2"; kill -9 $$`, "", true},
		"has failed":                          {`echo "Error (criu/x.c:1): Can't dump it"; exit 1`, proc.KindName(proc.ErrNotCheckpointable), false},
		"has failed, and the store is full":   {`cat /dev/zero > "$5/pages-1.img" 2> /dev/null; exit 1`, "no-space", false},
		"has ended by itself, without asking": {`exit 0`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("store", dir, "tmpfs", 0, "mode=700,size=32m"); err != nil {
				t.Skip("mount:", err)
			}
			defer unix.Unmount(dir, unix.MNT_DETACH)
			program := filepath.Join(t.TempDir(), "criu")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.does+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			var job, said bytes.Buffer
			j := dumpJob{Dir: t.TempDir(), Memory: t.TempDir(), CRIU: program, InitPID: 2, Task: "t", Options: proc.CheckpointOptions{Store: dir}}
			if err := json.NewEncoder(&job).Encode(j); err != nil {
				t.Fatal(err)
			}
			if err := runDump(&job, &said); err != nil {
				t.Fatal(err)
			}
			var a dumpAnswer
			if err := json.Unmarshal(said.Bytes(), &a); err != nil || a.Error == "" || a.Kind != c.kind || a.Killed != c.killed {
				t.Errorf("%s %v, want kind %q, killed %v", said.Bytes(), err, c.kind, c.killed)
			}
		})
	}
}
