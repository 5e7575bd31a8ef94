package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

const (
	// idName is a file that every marked store has, and no other directory.
	idName = ".id"
	// ownerName is a file that says whose it is. Stores of older versions have none.
	ownerName = ".owner"
)

// IdentityFile is the file in the state directory of a daemon that has the ID by which its stores know it (Owner.ID).
const IdentityFile = "identity"

// ErrForeign: a store belongs to another daemon, whose tasks have the same names as this
// one's.
var ErrForeign = errors.New("the checkpoint store belongs to another daemon")

// ErrNotThere: where a store should be there is another one, or none.
var ErrNotThere = errors.New("not the one that is meant")

// is returns nil if the store in dir has the id, ErrNotThere if it has another one or none.
func is(dir, id string) error {
	switch have, err := ID(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: in %s is none; is its file system mounted?", ErrNotThere, dir)
	case err != nil:
		return err
	case have != id:
		return fmt.Errorf("%w: in %s is another one", ErrNotThere, dir)
	}
	return nil
}

// Owner is whose a store is. Only ID, which is never empty, tells one from another; Host and Dir, the directory of
// its state, are what they were when the store was claimed, for people.
type Owner struct{ ID, Host, Dir string }

// Claim makes a store, or a directory that is to be one, the owner's, unless it is somebody's.
// Of several who claim it at once, also on different machines, one gets it. The error is
// ErrForeign if it is another's; then nothing has changed.
func Claim(dir string, by Owner) error { return claim(dir, dir, by) }

// Recognize returns the name of the store in dir (ID), and makes it the owner's as Claim does if that is the name
// meant, or "" is meant. Nothing is written into another directory that comes to be in its place meanwhile. The error is
// fs.ErrNotExist where there is no store, ErrForeign if it is another's.
func Recognize(dir, meant string, by Owner) (id string, err error) {
	err = within(dir, func(at string) (err error) {
		switch id, err = ID(at); {
		case err != nil:
			return fmt.Errorf("checkpoint store %s: %w", dir, err)
		case meant != "" && id != meant:
			return nil
		}
		return claim(at, dir, by)
	})
	return id, err
}

// claim is Claim of the store that is found at a path, and is dir to people.
func claim(at, dir string, by Owner) error {
	err := owned(at, dir, by)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(at, ownerName+"-*")
	if err != nil {
		return fmt.Errorf("say in the checkpoint store %s whose it is: %w", dir, err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, "%s\n%q\n%q\n", by.ID, by.Host, by.Dir)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// Unlike a rename a link takes nobody's place, on NFS too.
	err = os.Link(f.Name(), filepath.Join(at, ownerName))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) { // a file system without links
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, filepath.Join(at, ownerName), unix.RENAME_NOREPLACE)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // what exists may be this very link, whose answer a network has lost
		return fmt.Errorf("say in the checkpoint store %s whose it is: %w", dir, err)
	}
	if err := linux.SyncDir(at); err != nil {
		return err
	}
	return owned(at, dir, by)
}

// Owned returns nil if a store is the owner's, ErrForeign if it is another's, and fs.ErrNotExist if it is
// nobody's.
func Owned(dir string, by Owner) error { return owned(dir, dir, by) }

func owned(at, dir string, by Owner) error {
	b, err := os.ReadFile(filepath.Join(at, ownerName))
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	if lines[0] == by.ID {
		return nil
	}
	is := "another daemon"
	if len(lines) >= 3 {
		is = fmt.Sprintf("the daemon on %s with the state directory %s", lines[1], lines[2])
	}
	return fmt.Errorf("%w: %s belongs to %s. Give each daemon a directory of its own (--store); if that one is gone for good, remove what it has left there and then %s: this one takes it over",
		ErrForeign, dir, is, filepath.Join(dir, ownerName))
}

// ID returns the name that Mark has given to the store in dir. It is what tells a store
// from the directory that its file system is mounted on. The error is fs.ErrNotExist
// where there is none.
func ID(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, idName))
	return strings.TrimSpace(string(b)), err
}

// Mark makes the store in dir if it is not there, and gives it a name that no other one
// has, unless it has one. It returns the name.
func Mark(dir string) (string, error) {
	if _, err := Open(dir, Options{}); err != nil {
		return "", err
	}
	if id, err := ID(dir); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := linux.WriteFileDurably(filepath.Join(dir, idName), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return "", err
	}
	return ID(dir)
}
