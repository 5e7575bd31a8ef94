package dfs

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"headrace/dfs/names"
	"headrace/internal/crash"
	"headrace/internal/vfs"
)

// aside is the directory for names that are damaged, with their log, until the node has those of others.
const aside = "damaged"

// heal puts a database without names in the place of one whose names are damaged, when other nodes have them, and returns it. What was there is set aside, and
// nothing of it is deleted yet; the node takes part with its blocks and is given the names as another replica. Where a crash has
// ended that, it goes on.
func heal(c Config, db *bolt.DB) (*bolt.DB, error) {
	to, path, log := filepath.Join(c.Dir, aside), filepath.Join(c.Dir, "meta.db"), filepath.Join(c.Dir, "log")
	_, here := os.Stat(log)
	_, there := os.Stat(filepath.Join(to, "log"))
	moved := errors.Is(here, os.ErrNotExist) && there == nil // by a start before, which has died
	if moved {
		log = filepath.Join(to, "log")
	}
	others, lost, err := names.Ill(db, log, moved, c.Log)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if others == nil {
		return db, nil
	}
	if !moved {
		err = setLogAside(log, to)
	}
	crash.Here("dfs.heal.log")
	if err == nil {
		err = renew(path+".new", func(tx *bolt.Tx) error { return names.Renew(tx, db, others, lost) })
	}
	crash.Here("dfs.heal.renewed")
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	kept := filepath.Join(to, "meta.db")
	if err := os.Remove(kept); err != nil && !errors.Is(err, os.ErrNotExist) { // another name of the same file
		return nil, err
	}
	if err := errors.Join(os.Link(path, kept), (vfs.OS{}).SyncDir(to)); err != nil {
		return nil, err
	}
	crash.Here("dfs.heal.kept")
	if err := errors.Join(os.Rename(path+".new", path), (vfs.OS{}).SyncDir(c.Dir)); err != nil {
		return nil, err
	}
	c.Log.Error("the names here are damaged, or others than most nodes have: they are set aside, and this node asks the others for theirs", "aside", to)
	return openDB(c.Dir)
}

// setLogAside moves the log of a damaged state. What promises it has made is known from then on only to who reads it there, so nobody takes part with it any more.
func setLogAside(log, to string) error {
	// What is there is of an earlier replica: that this one was made says that nobody needs it.
	if err := errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o700)); err != nil {
		return err
	}
	return errors.Join(os.Rename(log, filepath.Join(to, "log")), (vfs.OS{}).SyncDir(to), (vfs.OS{}).SyncDir(filepath.Dir(to)))
}

// renew makes a database with what fill puts into it.
func renew(path string, fill func(*bolt.Tx) error) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	return errors.Join(db.Update(fill), db.Close())
}
