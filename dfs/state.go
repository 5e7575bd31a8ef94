package dfs

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"headrace/dfs/names"
	"headrace/internal/crash"
	"headrace/internal/vfs"
	"headrace/meta"
)

var (
	nodeBucket  = []byte("node")
	identityKey = []byte("identity")
	disksKey    = []byte("disks")
	failuresKey = []byte("failures") // how often each disk was taken out
	faultsKey   = []byte("faults")   // how often it has failed
	renewedKey  = []byte("renewed")
)

// layout is the version of what is in the directory. Layout 1 had one node, and no log: it is taken over.
const layout = 2

// segments and replicas are those of a new file system's ring.
const (
	segments = 4096
	replicas = 3
)

// An Identity tells a node from others.
type Identity struct {
	Layout int
	// Pool is the name of the block pool, Node and Storage of the data node and its storage, as HDFS
	// has them. Pool is empty while the node has not joined a file system.
	Pool, Node, Storage string
	Owner, Group        string
	// Key signs tokens.
	Key []byte
}

// An Invitation is what a node is told that joins a file system: what is the same on all nodes, as Identity has it, and a
// view that has the node as a member. It is secret.
type Invitation struct {
	Pool, Owner, Group string
	Key                []byte
	View               *View
}

// Invitation returns one, for who was admitted with a view.
func (i Identity) Invitation(v *View) *Invitation {
	return &Invitation{i.Pool, i.Owner, i.Group, i.Key, v}
}

// stranger is a node of no file system.
func stranger() Identity {
	name := func() string {
		b := make([]byte, 16)
		rand.Read(b)
		h := hex.EncodeToString(b)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	return Identity{Layout: layout, Node: name(), Storage: "DS-" + name()}
}

// openDB opens the database of a directory.
func openDB(dir string) (db *bolt.DB, err error) {
	// The room in addresses spares readers from being waited for whenever the file grows.
	err = names.Sound(func() error { // its list of free pages may be damaged
		db, err = bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{Timeout: time.Second, InitialMmapSize: 1 << 36, FreelistType: bolt.FreelistMapType})
		return err
	})
	if err == nil {
		err = (vfs.OS{}).SyncDir(dir)
	}
	return db, err
}

// update changes a database that may be damaged.
func update(db *bolt.DB, f func(*bolt.Tx) error) error {
	return names.Sound(func() error { return db.Update(f) })
}

// identify reads who the node is; nobody yet is a zero Identity.
func identify(tx *bolt.Tx) (who Identity, err error) {
	if b := tx.Bucket(nodeBucket); b != nil {
		err = json.Unmarshal(b.Get(identityKey), &who)
	}
	if err == nil && who.Layout > layout {
		err = fmt.Errorf("the directory has layout %d, and this program knows %d", who.Layout, layout)
	}
	return who, err
}

func putIdentity(tx *bolt.Tx, who Identity) error {
	b, err := json.Marshal(who)
	if err != nil {
		return err
	}
	node, err := tx.CreateBucketIfNotExists(nodeBucket)
	if err != nil {
		return err
	}
	return node.Put(identityKey, b)
}

// below begins a directory of blocks, as it is noted, that lies in that of the node, and goes where that goes.
const below = "./"

// hadDisks returns the directories that have had blocks of this node, nil if that was never noted.
func (n *Node) hadDisks() (had []string, err error) {
	err = n.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(nodeBucket).Get(disksKey); b != nil {
			return json.Unmarshal(b, &had)
		}
		return nil
	})
	for i, dir := range had {
		if rest, is := strings.CutPrefix(dir, below); is {
			had[i] = filepath.Join(n.Config.Dir, rest)
		}
	}
	return absolutes(had), err
}

// named refuses a start without a directory that has had blocks, unless they are given up: what is there would be taken for lost, also what exists nowhere else.
func named(disks, had, givenUp []string) error {
	for _, dir := range had {
		if !slices.Contains(disks, dir) && !slices.Contains(givenUp, dir) {
			return fmt.Errorf("%s has blocks of this node, and is not named any more: name it with --disk; if they are lost or not wanted, or that disk is in another place now, start once with --new-disk %[1]s as well", dir)
		}
	}
	for _, dir := range givenUp {
		if !slices.Contains(disks, dir) && !slices.Contains(had, dir) {
			return fmt.Errorf("--new-disk %s: it is no --disk, and has had no blocks of this node", dir)
		}
	}
	return nil
}

// noDisks notes that a new part of a file system has none yet: what is in directories that it is given is not its.
func noDisks(tx *bolt.Tx) error { return tx.Bucket(nodeBucket).Put(disksKey, []byte("[]")) }

// noteDisks notes the directories that have blocks, or will, and, if some have just been given up, for which of them that has been done: in one, since who
// names a directory that has neither had blocks nor been given up is refused. One that was left out stays known. The disks are not asked, for one may hang.
func (n *Node) noteDisks(before []string, gaveUp bool) error {
	known, own := []string{}, absolutes([]string{n.Config.Dir})[0]
	for i, v := range n.Blocks.Volumes() {
		if dir := n.Config.Disks[i]; v.Identified || v.Unseen != nil || slices.Contains(before, dir) {
			if rest, err := filepath.Rel(own, dir); err == nil && filepath.IsLocal(rest) {
				dir = below + rest
			}
			known = append(known, dir)
		}
	}
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	same := false
	if err := n.db.View(func(tx *bolt.Tx) error { same = bytes.Equal(tx.Bucket(nodeBucket).Get(disksKey), b); return nil }); err != nil || same && !gaveUp {
		return err // at most starts: a write would have to become durable
	}
	err = n.db.Update(func(tx *bolt.Tx) error {
		if err := tx.Bucket(nodeBucket).Put(disksKey, b); err != nil || !gaveUp {
			return err
		}
		return noteRenewed(tx, n.Config.NewDisks)
	})
	crash.Here("dfs.disks.noted")
	return err
}

// renews returns those of the directories in Config.NewDisks that are to be taken for new: once for as long as they are named, as settings
// stay when the machine starts again, and then a disk may just not be mounted.
func renews(db *bolt.DB, named []string, log *slog.Logger) (now []string, err error) {
	var before []string
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(nodeBucket).Get(renewedKey); b != nil {
			return json.Unmarshal(b, &before)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	still := []string{}
	for _, dir := range named {
		if slices.Contains(before, dir) {
			log.Warn("new-disk has been carried out by an earlier start, and does nothing any more: take it out of the settings. If the disk that is there now is lost, too, start once without it and then with it", "new-disk", dir)
			still = append(still, dir)
			continue
		}
		log.Warn("what was on a disk is given up, as new-disk says; take it out of the settings again", "new-disk", dir)
		now = append(now, dir)
	}
	if len(still) < len(before) {
		err = db.Update(func(tx *bolt.Tx) error { return noteRenewed(tx, still) })
	}
	return now, err
}

// noteRenewed notes for which directories that has been done.
func noteRenewed(tx *bolt.Tx, dirs []string) error {
	b, err := json.Marshal(dirs)
	if err != nil {
		return err
	}
	return tx.Bucket(nodeBucket).Put(renewedKey, b)
}

// failures returns how often each directory of blocks has been taken out of use.
func failures(tx *bolt.Tx) (map[string]uint64, error) { return counts(tx, failuresKey) }

// counts returns one number for each directory.
func counts(tx *bolt.Tx, key []byte) (map[string]uint64, error) {
	of := map[string]uint64{}
	if b := tx.Bucket(nodeBucket).Get(key); b != nil {
		return of, json.Unmarshal(b, &of)
	}
	return of, nil
}

func changeCounts(tx *bolt.Tx, key []byte, change func(map[string]uint64)) error {
	of, err := counts(tx, key)
	if err != nil {
		return err
	}
	change(of)
	b, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return tx.Bucket(nodeBucket).Put(key, b)
}

// failuresOf is how often the disk in a directory has failed, as far as that can be read. That it was not mounted is no failure.
func failuresOf(db *bolt.DB, dir string) (n uint64) {
	db.View(func(tx *bolt.Tx) error {
		of, err := counts(tx, faultsKey)
		n = of[dir]
		return err
	})
	return n
}

// noteFailure notes that a disk has been taken out of use, and whether it has failed.
func noteFailure(db *bolt.DB, dir string, failed bool) error {
	more := func(of map[string]uint64) { of[dir]++ }
	return db.Update(func(tx *bolt.Tx) error {
		if err := changeCounts(tx, failuresKey, more); err != nil || !failed {
			return err
		}
		return changeCounts(tx, faultsKey, more)
	})
}

// forgetFaults notes that there are other disks in some directories.
func forgetFaults(db *bolt.DB, dirs []string) error {
	return db.Update(func(tx *bolt.Tx) error {
		return changeCounts(tx, faultsKey, func(of map[string]uint64) {
			for _, dir := range dirs {
				delete(of, dir)
			}
		})
	})
}

// absolutes are directories as they are called wherever the process is started.
func absolutes(dirs []string) []string {
	all := slices.Clone(dirs)
	for i, dir := range all {
		if abs, err := filepath.Abs(dir); err == nil { // else the working directory is gone
			all[i] = abs
		}
	}
	return all
}

// Prepare returns who the node in a directory is, or will be once it has joined a file system: a node that was made, but
// not told of one, has no Pool. It may be called again, and not while the node is open.
func Prepare(c Config) (who Identity, err error) {
	c = c.filled()
	lock, err := own(c.Dir)
	if err != nil {
		return who, err
	}
	db, err := openDB(c.Dir)
	if err != nil {
		return who, errors.Join(err, lock.Close())
	}
	err = update(db, func(tx *bolt.Tx) error {
		if who, err = identify(tx); err != nil || who.Node != "" {
			return err
		}
		who = stranger()
		return putIdentity(tx, who)
	})
	return who, errors.Join(err, db.Close(), lock.Close())
}

// HasOthers reports whether the node in a directory is one of several, as far as it has noted that. It may be called again, and not while the node is open.
func HasOthers(dir string) (is bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, "meta.db")); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	lock, err := own(dir)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	db, err := openDB(dir)
	if err != nil {
		return false, err
	}
	v, err := names.Stored(db)
	return err == nil && v != nil && len(v.Members) > 1, errors.Join(err, db.Close())
}

// openState opens the database, and makes a file system, or a part of another one, where there is nothing.
func openState(c Config) (*bolt.DB, Identity, error) {
	var who Identity
	db, err := openDB(c.Dir)
	if err != nil {
		return nil, who, err
	}
	err = update(db, func(tx *bolt.Tx) error {
		if who, err = identify(tx); err != nil {
			return err
		}
		switch {
		case who.Layout == 1:
			who.Layout = layout
			return errors.Join(putIdentity(tx, who), names.Found(tx, c.itself(who), segments, replicas))
		case who.Pool != "" && c.Invitation != nil && c.Invitation.Pool != who.Pool:
			return fmt.Errorf("%s is of another file system: %s, and not %s", c.Dir, who.Pool, c.Invitation.Pool)
		case who.Pool != "":
			return nil
		case c.Invitation != nil:
			return join(tx, &who, c.Invitation)
		case who.Node != "":
			return fmt.Errorf("%s was made to join a file system, and has not", c.Dir)
		}
		return found(tx, &who, c)
	})
	if err != nil {
		return nil, who, errors.Join(err, db.Close())
	}
	if !c.AcceptDamage {
		db, err = heal(c, db)
	}
	return db, who, err
}

// join makes a part of a file system that there is.
func join(tx *bolt.Tx, who *Identity, i *Invitation) error {
	if who.Node == "" {
		return errors.New("a node is prepared before it is invited")
	}
	who.Pool, who.Owner, who.Group, who.Key = i.Pool, i.Owner, i.Group, i.Key
	_, err := names.State(tx)
	return errors.Join(err, putIdentity(tx, *who), noDisks(tx), names.Follow(tx, i.View))
}

// found makes a file system.
func found(tx *bolt.Tx, who *Identity, c Config) error {
	*who = stranger()
	who.Pool, who.Owner, who.Group = fmt.Sprintf("BP-%s-headrace-%d", stranger().Node[:8], c.Now().UnixMilli()), c.Owner, c.Group
	who.Key = make([]byte, 32)
	rand.Read(who.Key)
	if err := errors.Join(putIdentity(tx, *who), noDisks(tx)); err != nil {
		return err
	}
	b, err := names.State(tx)
	if err != nil {
		return err
	}
	v := &firstState{b: b}
	meta.Format(v, *c.Meta, who.Owner, who.Group, c.Now().UnixMilli())
	crash.Here("dfs.format")
	return errors.Join(v.err, names.Found(tx, c.itself(*who), segments, replicas))
}

// firstState is the state while it is made: meta.Format only writes.
type firstState struct {
	meta.Reader
	b   *bolt.Bucket
	err error
}

func (v *firstState) Set(key, value []byte) { v.err = errors.Join(v.err, v.b.Put(key, value)) }
func (v *firstState) Delete(key []byte)     { v.err = errors.Join(v.err, v.b.Delete(key)) }
