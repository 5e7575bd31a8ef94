package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/data"
	"headrace/proc"
)

// Contents is all that is kept.
type Contents struct {
	Meta    Meta
	Records []*Record
	// Specs are without the environments of tasks that are started here.
	Specs map[headrace.TaskID]*proc.Spec
}

// Batch is what is written together. What is nil or empty stays as it is.
type Batch struct {
	Meta    *Meta
	Records []*Record
	Specs   map[headrace.TaskID]*proc.Spec
	Deleted []headrace.TaskID
}

// Empty reports whether there is nothing to write.
func (b *Batch) Empty() bool {
	return b.Meta == nil && len(b.Records)+len(b.Specs)+len(b.Deleted) == 0
}

var (
	metaBucket = []byte("meta")
	taskBucket = []byte("tasks")
	specBucket = []byte("specs")
	// requestBucket belongs to package data.
	requestBucket = []byte("warm")
	metaKey       = []byte("meta")
	reserveSize   = int64(8 << 20)
)

// ErrNoSpace says that the file system of the state directory is full.
var ErrNoSpace = errors.New("the state directory has no space left")

// DB is a journal in a bbolt database, with a reserve file beside it
// that gives the database room when the file system is full.
type DB struct {
	db      *bolt.DB
	reserve string
}

// Open opens the database in a state directory, or makes it.
func Open(dir string) (*DB, error) {
	path := filepath.Join(dir, "state.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: another program holds it; end that one first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w; if it is damaged, move it away: its tasks are then forgotten, but those that run go on and are taken in again", path, err)
	}
	j := &DB{db: db, reserve: filepath.Join(dir, "reserve")}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{metaBucket, taskBucket, specBucket, requestBucket} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", path, err), db.Close())
	}
	return j, nil
}

// Requests returns the part of the database that belongs to package data.
func (j *DB) Requests() data.Table { return requestTable{j.db} }

type requestTable struct{ db *bolt.DB }

// Update runs a durable transaction.
func (t requestTable) Update(do func(*bolt.Bucket) error) error {
	err := t.db.Update(func(tx *bolt.Tx) error { return do(tx.Bucket(requestBucket)) })
	if err != nil {
		return fmt.Errorf("%s: %w", t.db.Path(), err)
	}
	return nil
}

// Close closes the database.
func (j *DB) Close() error { return j.db.Close() }

// Load reads everything.
func (j *DB) Load() (Contents, error) {
	c := Contents{Specs: map[headrace.TaskID]*proc.Spec{}}
	hosted := map[headrace.TaskID]bool{}
	err := j.db.View(func(tx *bolt.Tx) error {
		if data := tx.Bucket(metaBucket).Get(metaKey); data != nil {
			if err := json.Unmarshal(data, &c.Meta); err != nil {
				return fmt.Errorf("general record: %w", err)
			}
			if c.Meta.Version > version {
				return fmt.Errorf("version %d was written by a newer headrace; this one knows %d", c.Meta.Version, version)
			}
		}
		err := tx.Bucket(taskBucket).ForEach(func(k, v []byte) error {
			r, err := decode(v)
			if err != nil {
				return fmt.Errorf("record of task %s: %w", k, err)
			}
			c.Records = append(c.Records, r)
			hosted[r.ID] = r.Hosting != nil
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Bucket(specBucket).ForEach(func(k, v []byte) error {
			spec := new(proc.Spec)
			if err := json.Unmarshal(v, spec); err != nil {
				return fmt.Errorf("specification of task %s: %w", k, err)
			}
			if !hosted[headrace.TaskID(k)] {
				spec.Env = nil
			}
			c.Specs[headrace.TaskID(k)] = spec
			return nil
		})
	})
	if err != nil {
		return c, fmt.Errorf("read %s: %w", j.db.Path(), err)
	}
	return c, nil
}

// Env returns the environment of a task. It may be called from any goroutine.
func (j *DB) Env(id headrace.TaskID) ([]string, error) {
	var spec proc.Spec
	err := j.db.View(func(tx *bolt.Tx) error {
		data := tx.Bucket(specBucket).Get([]byte(id))
		if data == nil {
			return errors.New("it is not there")
		}
		return json.Unmarshal(data, &spec)
	})
	if err != nil {
		return nil, fmt.Errorf("read the specification of task %s: %w", id, err)
	}
	return spec.Env, nil
}

// Commit writes a batch. All of it is durable when it returns nil, else none.
func (j *DB) Commit(b Batch) error {
	err := j.db.Update(func(tx *bolt.Tx) error { return b.write(tx) })
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", j.db.Path(), err)
	}
	return nil
}

func (b Batch) write(tx *bolt.Tx) error {
	put := func(bucket, key []byte, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return tx.Bucket(bucket).Put(key, data)
	}
	if b.Meta != nil {
		b.Meta.Version = version
		if err := put(metaBucket, metaKey, b.Meta); err != nil {
			return err
		}
	}
	for _, r := range b.Records {
		data, err := r.encode()
		if err != nil {
			return err
		}
		if err := tx.Bucket(taskBucket).Put([]byte(r.ID), data); err != nil {
			return err
		}
	}
	for id, spec := range b.Specs {
		if err := put(specBucket, []byte(id), spec); err != nil {
			return err
		}
	}
	for _, id := range b.Deleted {
		for _, bucket := range [][]byte{taskBucket, specBucket} {
			if err := tx.Bucket(bucket).Delete([]byte(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// KeepReserve takes the reserve from the file system if it is not there, and
// reports whether it is.
func (j *DB) KeepReserve() bool {
	if st, err := os.Stat(j.reserve); err == nil && st.Size() == reserveSize {
		return true
	}
	f, err := os.OpenFile(j.reserve, os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return true // that says nothing of the room; it is tried again
	}
	if err != nil {
		return false
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, reserveSize), f.Close())
	if errors.Is(err, unix.EOPNOTSUPP) {
		// Nothing can be set aside on such a file system (NFS for one).
		os.Remove(j.reserve)
		return true
	}
	if err != nil {
		os.Remove(j.reserve)
		return false
	}
	return true
}

// SpendReserve gives the reserve back to the file system and reports whether
// there was one.
func (j *DB) SpendReserve() bool { return os.Remove(j.reserve) == nil }
