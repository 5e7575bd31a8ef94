package solo

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

// journal keeps records. commit is atomic and durable when it returns nil.
type journal interface {
	load() (contents, error)
	commit(batch) error
	// env is the environment of a task that does not have it at hand (task.stored).
	// Unlike the others it may be called from any goroutine.
	env(id headrace.TaskID) ([]string, error)
	close() error
}

type contents struct {
	meta    meta
	records []*record // in order of submission
	// specs are without the environments of tasks that are started here.
	specs map[headrace.TaskID]*proc.Spec
}

type batch struct {
	meta    *meta
	records []*record
	specs   map[headrace.TaskID]*proc.Spec
	deleted []headrace.TaskID
}

func (b *batch) empty() bool {
	return b.meta == nil && len(b.records)+len(b.specs)+len(b.deleted) == 0
}

var (
	metaBucket = []byte("meta")
	taskBucket = []byte("tasks")
	specBucket = []byte("specs")
	// requestBucket belongs to package data.
	requestBucket = []byte("warm")
	metaKey       = []byte("meta")
	errNoSpace    = errors.New("the state directory has no space left")
	reserveSize   = int64(8 << 20)
)

// boltJournal is a journal in a bbolt database, with a reserve file beside it
// that gives the database room when the file system is full.
type boltJournal struct {
	db      *bolt.DB
	reserve string
}

func openJournal(dir string, opts *bolt.Options) (*boltJournal, error) {
	path := filepath.Join(dir, "state.db")
	db, err := bolt.Open(path, 0o600, opts)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: another program holds it; end that one first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w; if it is damaged, move it away: its tasks are then forgotten", path, err)
	}
	j := &boltJournal{db: db, reserve: filepath.Join(dir, "reserve")}
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

func defaultJournalOptions() *bolt.Options {
	return &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType}
}

// requests is the part of the database that belongs to package data.
func (j *boltJournal) requests() data.Table { return requestTable{j.db} }

type requestTable struct{ db *bolt.DB }

// Update runs a durable transaction.
func (t requestTable) Update(do func(*bolt.Bucket) error) error {
	err := t.db.Update(func(tx *bolt.Tx) error { return do(tx.Bucket(requestBucket)) })
	if err != nil {
		return fmt.Errorf("%s: %w", t.db.Path(), err)
	}
	return nil
}

func (j *boltJournal) close() error { return j.db.Close() }

func (j *boltJournal) load() (contents, error) {
	c := contents{specs: map[headrace.TaskID]*proc.Spec{}}
	hosted := map[headrace.TaskID]bool{}
	err := j.db.View(func(tx *bolt.Tx) error {
		if data := tx.Bucket(metaBucket).Get(metaKey); data != nil {
			if err := json.Unmarshal(data, &c.meta); err != nil {
				return fmt.Errorf("general record: %w", err)
			}
			if c.meta.Version > recordVersion {
				return fmt.Errorf("version %d was written by a newer headrace; this one knows %d", c.meta.Version, recordVersion)
			}
		}
		err := tx.Bucket(taskBucket).ForEach(func(k, v []byte) error {
			r, err := decodeRecord(v)
			if err != nil {
				return fmt.Errorf("record of task %s: %w", k, err)
			}
			c.records = append(c.records, r)
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
			c.specs[headrace.TaskID(k)] = spec
			return nil
		})
	})
	if err != nil {
		return c, fmt.Errorf("read %s: %w", j.db.Path(), err)
	}
	return c, nil
}

func (j *boltJournal) env(id headrace.TaskID) ([]string, error) {
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

func (j *boltJournal) commit(b batch) error {
	err := j.db.Update(func(tx *bolt.Tx) error { return b.write(tx) })
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", errNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", j.db.Path(), err)
	}
	return nil
}

func (b batch) write(tx *bolt.Tx) error {
	put := func(bucket, key []byte, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return tx.Bucket(bucket).Put(key, data)
	}
	if b.meta != nil {
		b.meta.Version = recordVersion
		if err := put(metaBucket, metaKey, b.meta); err != nil {
			return err
		}
	}
	for _, r := range b.records {
		data, err := r.encode()
		if err != nil {
			return err
		}
		if err := tx.Bucket(taskBucket).Put([]byte(r.ID), data); err != nil {
			return err
		}
	}
	for id, spec := range b.specs {
		if err := put(specBucket, []byte(id), spec); err != nil {
			return err
		}
	}
	for _, id := range b.deleted {
		for _, bucket := range [][]byte{taskBucket, specBucket} {
			if err := tx.Bucket(bucket).Delete([]byte(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepReserve takes the reserve from the file system if it is not there, and
// reports whether it is.
func (j *boltJournal) keepReserve() bool {
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

// spendReserve gives the reserve back to the file system and reports whether
// there was one.
func (j *boltJournal) spendReserve() bool { return os.Remove(j.reserve) == nil }
