package warm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"headrace/pagecache"
)

// state is how a request stands with one of its blocks.
type state uint8

const (
	remaining state = iota // still to be done
	pinned                 // locked; the request is in its list
	resident               // in memory, not locked by us; up to here it is wanted
	read                   // the job has read it and needs it no more
	notFit                 // it can never be locked for this request
	failed
	evicted // a user let it go
	states
)

// request is a Request that the engine works on. What newRequest sets does not
// change; the engine's lock protects the rest.
type request struct {
	Request
	name  string // for people
	seq   uint64 // of Add
	size  int64  // of all files
	block int64  // bytes
	// start has the first position of each file, and one past the last. Positions
	// number the blocks of all files in order.
	start  []uint32
	byPath []int32 // files sorted by path

	state  []state // of each position
	blocks [states]int
	bytes  [states]int64
	// held are the blocks in whose lists the request is, heldBytes what they count
	// against the budget.
	held      map[uint32]*block
	heldBytes int64
	shares    []*portion
	// moved are files that are on another device than their directory.
	moved map[int32]*portion
	// begun are files of several blocks that have been opened.
	begun map[int32]identity
	// parts is what an implicit job has read of files that it is not done with.
	parts map[int32][]pagecache.Range

	migrated     int64
	failedFiles  int
	failures     []Failure
	notFitReason string
	// assigning: it is not known of all files yet on which device they are.
	assigning bool
	ended     bool

	version uint64
	changed chan struct{} // closed at the next change; nil while nobody waits
}

const (
	// keptFailures is how many failures of a request are told with their reasons.
	keptFailures = 20
	// keptParts is how many separate parts of a file may have been read until
	// further ones are not noted any more; their blocks stay until the job ends.
	keptParts = 4096
)

// Failure is a file that could not be warmed, and why.
type Failure struct{ Path, Reason string }

// newRequest cuts the files of a request into blocks. It takes time proportional
// to the number of files.
func newRequest(q Request, blockSize int64) (*request, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	r := &request{Request: q, block: blockSize, held: map[uint32]*block{}, assigning: true, version: 1}
	r.name = "request " + string(q.ID)
	if q.Job != "" {
		r.name = "job " + string(q.Job)
	}
	r.sortPaths()
	r.start = make([]uint32, 1, len(r.Files)+1)
	for i := range r.Files {
		next := int64(r.start[i]) + max(1, blocksOf(r.wantedSize(i), blockSize))
		if next > maxBlocks {
			return nil, fmt.Errorf("%w: more than %d blocks; give several requests", ErrRequest, maxBlocks)
		}
		r.start = append(r.start, uint32(next))
	}
	r.state = make([]state, r.start[len(r.Files)])
	r.blocks[remaining] = len(r.state)
	for i := range r.Files {
		r.size += r.wantedSize(i)
		if r.size < 0 {
			return nil, fmt.Errorf("%w: the sizes of the files do not fit into 63 bits", ErrRequest)
		}
	}
	r.bytes[remaining] = r.size
	if r.Bytes == 0 {
		r.Bytes = r.size
	}
	r.refuseFiles()
	return r, nil
}

func blocksOf(size, block int64) int64 { return (size + block - 1) / block }

// wantedSize returns the size of a file; that of files which cannot be warmed is 0.
func (r *request) wantedSize(file int) int64 {
	size := r.Files[file].Size
	if size < 0 || size > r.block*maxFileBlocks {
		return 0
	}
	return size
}

// refuseFiles lets those files fail that need not even be opened.
func (r *request) refuseFiles() {
	for i, f := range r.Files {
		switch {
		case !filepath.IsAbs(f.Path):
			r.fail(i, "its path is relative; give an absolute one")
		case f.Size < 0:
			r.fail(i, fmt.Sprintf("its size is given as %d", f.Size))
		case f.Off < 0 || f.Off%pageSize != 0:
			r.fail(i, fmt.Sprintf("its part is to begin at %d, which is no multiple of a page", f.Off))
		case f.Size > r.block*maxFileBlocks:
			r.fail(i, fmt.Sprintf("its size of %d bytes is more than can be warmed (%d)", f.Size, r.block*maxFileBlocks))
		}
	}
}

// sortPaths makes the index by path, and leaves out repeated paths.
func (r *request) sortPaths() {
	files := r.Files
	index := func() {
		r.byPath = make([]int32, len(files))
		for i := range r.byPath {
			r.byPath[i] = int32(i)
		}
		// Of equal paths the first stays first.
		slices.SortStableFunc(r.byPath, func(a, b int32) int { return strings.Compare(files[a].Path, files[b].Path) })
	}
	index()
	again := map[int32]bool{}
	for i := 1; i < len(r.byPath); i++ {
		if files[r.byPath[i]].Path == files[r.byPath[i-1]].Path {
			again[r.byPath[i]] = true
		}
	}
	if len(again) == 0 {
		return
	}
	files = make([]File, 0, len(r.Files)-len(again))
	for i, f := range r.Files {
		if !again[int32(i)] {
			files = append(files, f)
		}
	}
	r.Files = files
	index()
}

// find returns the file with a path.
func (r *request) find(path string) (file int, ok bool) {
	i, ok := slices.BinarySearchFunc(r.byPath, path, func(f int32, path string) int {
		return strings.Compare(r.Files[f].Path, path)
	})
	if !ok {
		return 0, false
	}
	return int(r.byPath[i]), true
}

// fileOf returns the file that a position is in.
func (r *request) fileOf(pos uint32) int {
	i, exact := slices.BinarySearch(r.start, pos)
	if !exact {
		i--
	}
	return i
}

// part returns the bytes of a position in its file.
func (r *request) part(file int, pos uint32) pagecache.Range {
	off := int64(pos-r.start[file]) * r.block
	return pagecache.Range{Off: r.Files[file].Off + off, Len: min(r.block, r.wantedSize(file)-off)}
}

// move changes how the request stands with a block.
func (r *request) move(pos uint32, to state) {
	from := r.state[pos]
	if from == to {
		return
	}
	n := r.part(r.fileOf(pos), pos).Len
	r.state[pos] = to
	r.blocks[from]--
	r.blocks[to]++
	r.bytes[from] -= n
	r.bytes[to] += n
	r.touch()
}

// wants reports whether a reference to the block would be of use.
func (r *request) wants(pos uint32) bool {
	return !r.ended && (r.state[pos] == remaining || r.state[pos] == resident)
}

// fits reports whether n more bytes may be locked for this request.
func (r *request) fits(n int64) bool { return r.Budget == 0 || r.heldBytes+n <= r.Budget }

// fail gives a file up, but for what is locked of it.
func (r *request) fail(file int, reason string) {
	gone, before := false, false
	for pos := r.start[file]; pos < r.start[file+1]; pos++ {
		switch r.state[pos] {
		case remaining, resident:
			r.move(pos, failed)
			gone = true
		case failed:
			before = true
		}
	}
	if !gone || before {
		return
	}
	r.failedFiles++
	if len(r.failures) < keptFailures {
		r.failures = append(r.failures, Failure{r.Files[file].Path, reason})
	}
}

// touch tells those who watch.
func (r *request) touch() {
	r.version++
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// finished reports whether nothing is left to be done.
func (r *request) finished() bool { return !r.assigning && r.blocks[remaining] == 0 }
