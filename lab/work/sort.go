package work

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"
)

// SortedBytes is the length of the records that a mapper sorts.
const SortedBytes = 128

// A sorter sorts what a mapper reads, as a job of MapReduce does: each block is sorted
// and written to a file of its own, and all these are merged into one.
type sorter struct {
	dir  string
	runs []*run // of the blocks, in their order
}

// newSorter writes to a new directory in dir. The caller closes it.
func newSorter(dir string, size, block int64) (*sorter, error) {
	if size%SortedBytes != 0 || block%SortedBytes != 0 {
		return nil, fmt.Errorf("%d bytes in blocks of %d: want multiples of %d, which are sorted as one", size, block, SortedBytes)
	}
	dir, err := os.MkdirTemp(dir, "sort-")
	return &sorter{dir, make([]*run, (size+block-1)/block)}, err
}

func (s *sorter) close() error {
	for _, r := range s.runs {
		if r != nil {
			r.file.Close()
		}
	}
	return os.RemoveAll(s.dir)
}

// add sorts and writes block i. Several may be added at a time.
func (s *sorter) add(i int64, block []byte) error {
	f, err := os.Create(filepath.Join(s.dir, fmt.Sprint("run", i)))
	if err != nil {
		return err
	}
	s.runs[i] = &run{file: f}
	out := bufio.NewWriterSize(f, 1<<20)
	for _, record := range sortRecords(block) {
		out.Write(record) // an error is kept for Flush
	}
	return out.Flush()
}

// sortRecords returns the records of block in their order.
func sortRecords(block []byte) [][]byte {
	type keyed struct {
		key    uint64
		record []byte
	}
	var all []keyed
	for r := range slices.Chunk(block, SortedBytes) {
		all = append(all, keyed{keyOf(r), r})
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), bytes.Compare(a.record, b.record))
	})
	records := make([][]byte, len(all))
	for i, k := range all {
		records[i] = k.record
	}
	return records
}

// keyOf returns the first bytes of a record as a number, in the same order.
func keyOf(record []byte) uint64 { return binary.BigEndian.Uint64(record) }

// run is a sorted block that is being merged.
type run struct {
	file   *os.File
	in     *bufio.Reader
	key    uint64
	record [SortedBytes]byte // the next one
	over   bool              // there is none
}

func (r *run) next() error {
	_, err := io.ReadFull(r.in, r.record[:])
	if r.over = errors.Is(err, io.EOF); r.over {
		return nil
	}
	r.key = keyOf(r.record[:])
	return err
}

func (r *run) less(o *run) bool {
	if r.over || o.over {
		return !r.over
	}
	return r.key < o.key || r.key == o.key && bytes.Compare(r.record[:], o.record[:]) < 0
}

// merge writes all records in their order to one file, makes it durable, and returns
// the sum of what it has written.
func (s *sorter) merge() (uint64, error) {
	f, err := os.Create(filepath.Join(s.dir, "sorted"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, r := range s.runs {
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		r.in = bufio.NewReaderSize(r.file, 128<<10)
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	hash, file := xxh3.New(), bufio.NewWriterSize(f, 1<<20)
	out := io.MultiWriter(hash, file)
	if err := mergeRuns(s.runs, out); err != nil {
		return 0, err
	}
	return hash.Sum64(), errors.Join(file.Flush(), f.Sync())
}

// mergeRuns keeps the runs in a heap, the one with the least record first.
func mergeRuns(heap []*run, out io.Writer) error {
	for i := len(heap) - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(heap) > 0 && !heap[0].over {
		r := heap[0]
		if _, err := out.Write(r.record[:]); err != nil {
			return err
		}
		if err := r.next(); err != nil {
			return err
		}
		sink(heap, 0)
	}
	return nil
}

// sink moves heap[i] down until it is less than those below it.
func sink(heap []*run, i int) {
	for {
		least := i
		for _, below := range []int{2*i + 1, 2*i + 2} {
			if below < len(heap) && heap[below].less(heap[least]) {
				least = below
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// SumSorted returns the sum that a mapper which sorts the file must come to. It sorts
// all of it in memory.
func SumSorted(path string) (uint64, error) {
	all, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	records := slices.Collect(slices.Chunk(all, SortedBytes))
	slices.SortFunc(records, bytes.Compare)
	hash := xxh3.New()
	for _, r := range records {
		hash.Write(r)
	}
	return hash.Sum64(), nil
}
