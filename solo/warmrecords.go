package solo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"headrace"
)

// warmRecord is what is durable of a request to keep files in memory.
type warmRecord struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	// Order is the number of the request.
	Order uint64         `json:"order"`
	UID   uint32         `json:"uid"`
	GID   uint32         `json:"gid"`
	Job   headrace.JobID `json:"job,omitempty"`
	// Seen: there was a task of the job.
	Seen   bool  `json:"seen,omitempty"`
	Budget int64 `json:"budget,omitempty"`
	// Paths were asked for; what Except means was let go since.
	Paths       []string `json:"paths"`
	Except      []string `json:"except,omitempty"`
	SubmittedMs int64    `json:"submitted_ms"`
}

var warmBucket = []byte("warm")

// warmRecords keeps them in the database of the journal. Its methods may be
// called from any goroutine; what they have done is durable when they return.
type warmRecords struct{ db *bolt.DB }

// openWarmRecords reads them all, in their order.
func openWarmRecords(db *bolt.DB) (*warmRecords, []warmRecord, error) {
	var all []warmRecord
	err := db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(warmBucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			var r warmRecord
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
		return nil, nil, fmt.Errorf("read what is to be kept in memory from %s: %w", db.Path(), err)
	}
	slices.SortFunc(all, func(a, b warmRecord) int { return int(int64(a.Order) - int64(b.Order)) })
	return &warmRecords{db}, all, nil
}

// add gives a record its number and its id.
func (s *warmRecords) add(r *warmRecord) error {
	return s.update(func(b *bolt.Bucket) (err error) {
		if r.Order, err = b.NextSequence(); err != nil {
			return err
		}
		r.ID = "w" + strconv.FormatUint(r.Order, 10)
		return putWarm(b, r)
	})
}

func (s *warmRecords) put(r *warmRecord) error {
	return s.update(func(b *bolt.Bucket) error { return putWarm(b, r) })
}

func (s *warmRecords) remove(ids ...string) error {
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

func (s *warmRecords) update(do func(*bolt.Bucket) error) error {
	err := s.db.Update(func(tx *bolt.Tx) error { return do(tx.Bucket(warmBucket)) })
	if err != nil {
		return fmt.Errorf("record what is to be kept in memory in %s: %w", s.db.Path(), err)
	}
	return nil
}

func putWarm(b *bolt.Bucket, r *warmRecord) error {
	r.Version = recordVersion
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Put([]byte(r.ID), data)
}
