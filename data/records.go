package data

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"headrace"
)

// record is what is durable of a request to keep files in memory.
type record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	// Seq is the number of the request.
	Seq uint64         `json:"order"`
	UID uint32         `json:"uid"`
	GID uint32         `json:"gid"`
	Job headrace.JobID `json:"job,omitempty"`
	// Seen: there was a task of the job.
	Seen   bool  `json:"seen,omitempty"`
	Budget int64 `json:"budget,omitempty"`
	// Paths were asked for; what Except means was let go since.
	Paths       []string `json:"paths"`
	Except      []string `json:"except,omitempty"`
	SubmittedMs int64    `json:"submitted_ms"`
}

const recordVersion = 1

// Table is the part of a database that belongs to Files alone. It must be safe for
// concurrent use.
type Table interface {
	// Update runs a transaction, which is durable when it returns nil.
	Update(do func(*bolt.Bucket) error) error
}

// records keeps what users have asked for. What a method has done is durable when
// it returns.
type records struct{ table Table }

// openRecords reads them all, in their order.
func openRecords(t Table) (*records, []record, error) {
	var all []record
	err := t.Update(func(b *bolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			var r record
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("request %s: %w", k, err)
			}
			if r.Version > recordVersion {
				return fmt.Errorf("request %s: version %d was written by a newer headrace; this one knows %d", k, r.Version, recordVersion)
			}
			all = append(all, r)
			return nil
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read what is to be kept in memory: %w", err)
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.Seq, b.Seq) })
	return &records{t}, all, nil
}

// add gives a record its number and its id.
func (s *records) add(r *record) error {
	return s.update(func(b *bolt.Bucket) (err error) {
		if r.Seq, err = b.NextSequence(); err != nil {
			return err
		}
		r.ID = "w" + strconv.FormatUint(r.Seq, 10)
		return putRecord(b, r)
	})
}

func (s *records) put(r *record) error {
	return s.update(func(b *bolt.Bucket) error { return putRecord(b, r) })
}

func (s *records) remove(ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.update(func(b *bolt.Bucket) error {
		for _, id := range ids {
			if err := b.Delete([]byte(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *records) update(do func(*bolt.Bucket) error) error {
	if err := s.table.Update(do); err != nil {
		return fmt.Errorf("record what is to be kept in memory: %w", err)
	}
	return nil
}

func putRecord(b *bolt.Bucket, r *record) error {
	r.Version = recordVersion
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Put([]byte(r.ID), data)
}
