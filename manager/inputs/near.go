package inputs

import (
	"sort"

	"headrace/wire"
)

// maxReaders is of how many parts of files a request may say where they will be read.
const maxReaders = 20_000

func checkReaders(q *wire.WarmInputsRequest) error {
	if len(q.Readers) > maxReaders {
		return invalid("%d readers; at most %d are allowed: leave some out", len(q.Readers), maxReaders)
	}
	for _, r := range q.Readers {
		if int64(r.Path) >= int64(len(q.Paths)) || r.Start < 0 || r.Length < 0 {
			return invalid("a reader of %d bytes from %d of path %d of %d: give what is there", r.Length, r.Start, r.Path, len(q.Paths))
		}
	}
	return nil
}

// near enters of the blocks of files on which host they will be read, as far as a request says so: who reads half of one or more counts.
// Readers that overlap are left out from when they are more than files have blocks.
func near(in *Inputs, q *wire.WarmInputsRequest, f *found) {
	if len(q.Readers) == 0 {
		return
	}
	files := make(map[string]int, len(f.files))
	for i := range f.files {
		files[f.files[i].Name] = i
	}
	rest := 2 * (f.blocks + len(q.Readers))
	for _, r := range q.Readers {
		at, err := in.locate(q.Paths[r.Path])
		i, known := files[at.root+at.path]
		if err != nil || !known {
			continue
		}
		file := &f.files[i]
		if file.Near == nil {
			file.Near = make([]string, len(file.Blocks))
		}
		k := sort.Search(len(file.Blocks), func(k int) bool { return file.Blocks[k].Offset+file.Blocks[k].Bytes > r.Start })
		for ; k < len(file.Blocks) && file.Blocks[k].Offset < r.Start+r.Length && rest > 0; k, rest = k+1, rest-1 {
			b := file.Blocks[k]
			if from, to := max(b.Offset, r.Start), min(b.Offset+b.Bytes, r.Start+r.Length); from < to && 2*(to-from) >= b.Bytes {
				file.Near[k] = r.Host
			}
		}
	}
}
