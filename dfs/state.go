package dfs

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/crash"
	"headrace/internal/vfs"
	"headrace/meta"
)

var (
	nodeBucket  = []byte("node")
	stateBucket = []byte("state")
	identityKey = []byte("identity")
)

// layout is the version of what is in the directory.
const layout = 1

// An Identity tells a node from others.
type Identity struct {
	Layout int
	// Pool is the name of the block pool, Node and Storage of the data node and its storage, as HDFS
	// has them.
	Pool, Node, Storage string
	Owner, Group        string
	// Key signs tokens.
	Key []byte
}

func newIdentity(c Config) Identity {
	name := func() string {
		b := make([]byte, 16)
		rand.Read(b)
		h := hex.EncodeToString(b)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	key := make([]byte, 32)
	rand.Read(key)
	return Identity{layout, fmt.Sprintf("BP-%s-headrace-%d", name()[:8], c.Now().UnixMilli()), name(), "DS-" + name(), c.Owner, c.Group, key}
}

// openState opens the database, and makes a file system where there is none.
func openState(c Config) (*bolt.DB, Identity, error) {
	var who Identity
	// The room in addresses spares queries from being waited for whenever the file grows.
	db, err := bolt.Open(filepath.Join(c.Dir, "meta.db"), 0o600, &bolt.Options{Timeout: time.Second, InitialMmapSize: 1 << 32, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, who, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if b := tx.Bucket(nodeBucket); b != nil {
			return json.Unmarshal(b.Get(identityKey), &who)
		}
		who = newIdentity(c)
		return format(tx, who, c)
	})
	if err == nil && who.Layout != layout {
		err = fmt.Errorf("%s has layout %d, and this program knows %d", c.Dir, who.Layout, layout)
	}
	if err == nil {
		err = (vfs.OS{}).SyncDir(c.Dir)
	}
	if err != nil {
		return nil, who, errors.Join(err, db.Close())
	}
	return db, who, nil
}

func format(tx *bolt.Tx, who Identity, c Config) error {
	node, err := tx.CreateBucket(nodeBucket)
	if err != nil {
		return err
	}
	state, err := tx.CreateBucket(stateBucket)
	if err != nil {
		return err
	}
	b, err := json.Marshal(who)
	if err == nil {
		err = node.Put(identityKey, b)
	}
	v := &view{reader: reader{state}}
	meta.Format(v, *c.Meta, who.Owner, who.Group, c.Now().UnixMilli())
	crash.Here("dfs.format")
	return errors.Join(err, v.err)
}

// reader is the state as a transaction sees it.
type reader struct{ b *bolt.Bucket }

func (r reader) Get(key []byte) []byte { return r.b.Get(key) }

func (r reader) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		c := r.b.Cursor()
		for k, v := c.Seek(from); k != nil && bytes.Compare(k, to) < 0; k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// view is the state in a transaction that writes.
type view struct {
	reader
	written bool
	err     error
}

func (v *view) Set(key, value []byte) { v.did(v.b.Put(key, value)) }
func (v *view) Delete(key []byte)     { v.did(v.b.Delete(key)) }

func (v *view) did(err error) {
	v.written = true
	if v.err == nil {
		v.err = err
	}
}
