package warm

import (
	"cmp"
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

// request is a Request that the engine works on. Its ID, Job, Hold and Owner do not change; the engine's
// lock protects the rest.
type request struct {
	Request
	name  string // for people
	seq   uint64 // of Add
	size  int64  // of all files
	block int64  // bytes
	// start has the first position of each file, and one past the last. Positions
	// number the blocks of all files in order.
	start  []uint32
	byPath []int32 // files in the order of compare, but for those that were taken out

	state  []state // of each position
	blocks [states]int
	bytes  [states]int64
	// held are the blocks in whose lists the request is, heldBytes what they count
	// against the budget.
	held      map[uint32]*block
	heldBytes int64
	// checked are the files that some portion is checking.
	checked map[int32]bool
	shares  []*portion
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
	// assigning: it is not known yet on which device the files from assigned on are.
	assigning bool
	assigned  int
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
	r := &request{Request: q, block: blockSize, held: map[uint32]*block{}, checked: map[int32]bool{}}
	r.name = "request " + string(q.ID)
	if q.Job != "" {
		r.name = "job " + string(q.Job)
	}
	r.Files, r.start = nil, make([]uint32, 1, len(q.Files)+1)
	if err := r.add(q.Files); err != nil {
		return nil, err
	}
	if r.Bytes == 0 {
		r.Bytes = r.size
	}
	return r, nil
}

// add appends files, but for those that there are. It fails with ErrRequest, and has changed nothing then.
func (r *request) add(files []File) error {
	files = r.fresh(files)
	next, size := int64(len(r.state)), r.size
	for _, f := range files {
		n := r.wanted(f)
		if next += max(1, blocksOf(n, r.block)); next > maxBlocks {
			return fmt.Errorf("%w: more than %d blocks; give several requests", ErrRequest, maxBlocks)
		}
		if size += n; size < 0 {
			return fmt.Errorf("%w: the sizes of the files do not fit into 63 bits", ErrRequest)
		}
	}
	first := len(r.Files)
	if first == 0 {
		r.Files = slices.Clip(files)
	} else {
		r.Files = append(r.Files, files...)
	}
	for _, f := range files {
		r.start = append(r.start, r.start[len(r.start)-1]+uint32(max(1, blocksOf(r.wanted(f), r.block))))
	}
	more := int(next) - len(r.state)
	r.state = append(r.state, make([]state, more)...)
	r.blocks[remaining] += more
	r.bytes[remaining] += size - r.size
	r.size = size
	r.index(first)
	r.refuseFiles(first)
	r.touch()
	return nil
}

func blocksOf(size, block int64) int64 { return (size + block - 1) / block }

// wanted returns the size of a file; that of files which cannot be warmed is 0.
func (r *request) wanted(f File) int64 {
	if f.Size < 0 || f.Size > r.block*maxFileBlocks {
		return 0
	}
	return f.Size
}

func (r *request) wantedSize(file int) int64 { return r.wanted(r.Files[file]) }

// refuseFiles lets those files from first on fail that need not even be opened.
func (r *request) refuseFiles(first int) {
	for i := first; i < len(r.Files); i++ {
		switch f := r.Files[i]; {
		case !filepath.IsAbs(f.Path):
			r.fail(i, "its path is relative; give an absolute one")
		case f.Size < 0:
			r.fail(i, fmt.Sprintf("its size is given as %d", f.Size))
		case f.Off < 0:
			r.fail(i, fmt.Sprintf("its part is to begin at %d", f.Off))
		case f.Size > r.block*maxFileBlocks:
			r.fail(i, fmt.Sprintf("its size of %d bytes is more than can be warmed (%d)", f.Size, r.block*maxFileBlocks))
		}
	}
}

// compare orders files by their paths, and parts of one by where they begin.
func compare(a, b File) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Off, b.Off))
}

// sorted returns the indices of files from first on in that order; of equal ones the first stays first.
func sorted(files []File, first int) []int32 {
	by := make([]int32, len(files)-first)
	for i := range by {
		by[i] = int32(first + i)
	}
	slices.SortStableFunc(by, func(a, b int32) int { return compare(files[a], files[b]) })
	return by
}

// fresh leaves out files that are repeated, and those that there are.
func (r *request) fresh(files []File) []File {
	again := map[int32]bool{}
	by := sorted(files, 0)
	for i, f := range by {
		if _, known := r.find(files[f]); known || i > 0 && compare(files[f], files[by[i-1]]) == 0 {
			again[f] = true
		}
	}
	if len(again) == 0 {
		return files
	}
	rest := make([]File, 0, len(files)-len(again))
	for i, f := range files {
		if !again[int32(i)] {
			rest = append(rest, f)
		}
	}
	return rest
}

// index enters files from first on into the index by path.
func (r *request) index(first int) {
	old, more := r.byPath, sorted(r.Files, first)
	if len(old) == 0 {
		r.byPath = more
		return
	}
	r.byPath = make([]int32, 0, len(old)+len(more))
	for len(old) > 0 && len(more) > 0 {
		from := &more
		if compare(r.Files[old[0]], r.Files[more[0]]) < 0 {
			from = &old
		}
		r.byPath, *from = append(r.byPath, (*from)[0]), (*from)[1:]
	}
	r.byPath = append(append(r.byPath, old...), more...)
}

// find returns the file with the path and the beginning of one.
func (r *request) find(like File) (file int, ok bool) {
	i, ok := slices.BinarySearchFunc(r.byPath, like, func(f int32, like File) int { return compare(r.Files[f], like) })
	if !ok {
		return 0, false
	}
	return int(r.byPath[i]), true
}

// named returns all files with a path: several are parts of one.
func (r *request) named(path string) []int32 {
	i, _ := slices.BinarySearchFunc(r.byPath, path, func(f int32, path string) int { return strings.Compare(r.Files[f].Path, path) })
	to := i
	for to < len(r.byPath) && r.Files[r.byPath[to]].Path == path {
		to++
	}
	return r.byPath[i:to]
}

// fileOf returns the file that a position is in.
func (r *request) fileOf(pos uint32) int {
	i, exact := slices.BinarySearch(r.start, pos)
	if !exact {
		i--
	}
	return i
}

// heldOf returns a position of a file that is held, if one is.
func (r *request) heldOf(file int) (pos uint32, is bool) {
	from, to := r.start[file], r.start[file+1]
	if int(to-from) > len(r.held) {
		for pos := range r.held {
			if from <= pos && pos < to {
				return pos, true
			}
		}
		return 0, false
	}
	for pos := from; pos < to; pos++ {
		if r.held[pos] != nil {
			return pos, true
		}
	}
	return 0, false
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

// giveUp takes a file off, and returns the blocks to be released.
func (r *request) giveUp(file int) (free []*block) {
	for pos := r.start[file]; pos < r.start[file+1]; pos++ {
		switch r.state[pos] {
		case remaining, pinned, resident, notFit:
			r.move(pos, evicted)
			if b := r.unref(pos); b != nil {
				free = append(free, b)
			}
		}
	}
	return free
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
