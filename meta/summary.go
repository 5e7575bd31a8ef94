package meta

import "slices"

// Summary counts what is in a tree.
type Summary struct {
	Size        int64 // bytes of files
	Files       int64
	Directories int64
	Space       int64 // bytes of all copies
	NameQuota   int64 // -1 is none
	SpaceQuota  int64
}

// Coding returns what HDFS calls the erasure coding policy of what was summed up: a file's copies, and none of a directory that names none.
func (s *Summary) Coding() string {
	if s.Directories == 0 {
		return "Replicated"
	}
	return ""
}

// Summary returns that of a file or of a directory with all below it (getContentSummary,
// getQuotaUsage). The caller must be able to list all directories.
func (q Query) Summary(path string) (*Summary, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return nil, err
	}
	n := t.last()
	if n == nil {
		return nil, fail(classNotFound, "File does not exist: %s", t.path())
	}
	sum := &Summary{NameQuota: -1, SpaceQuota: -1}
	if n.Directory {
		sum.NameQuota, sum.SpaceQuota = n.NameQuota, n.SpaceQuota
	}
	return sum, s.sum(n, sum)
}

// QuotaUsage is Summary, for whom the caller must be able to list all directories first.
func (q Query) QuotaUsage(path string) (*Summary, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err == nil {
		err = s.permit(t, demands{below: Read | Execute})
	}
	if err == nil && t.last() == nil {
		err = fail(classNotFound, "File/Directory does not exist: %s", t.path())
	}
	if err != nil {
		return nil, err
	}
	return q.Summary(path)
}

// sum counts what is at an inode and below it, directories in the order of their paths.
func (s *state) sum(top *inode, to *Summary) error {
	if !top.Directory {
		to.add(top.File)
		return nil
	}
	for todo := []uint64{top.ID}; len(todo) > 0; { // numbers: there may be very many
		dir := s.peek(todo[len(todo)-1])
		todo = todo[:len(todo)-1]
		to.Directories++
		if !s.allows(dir, Read|Execute) {
			return s.denied(dir, s.upwards(dir).path(), Read|Execute)
		}
		after := len(todo)
		var err error
		s.look(dir.ID, "", func(n *inode) bool {
			if n.Directory {
				todo = append(todo, n.ID)
			} else {
				to.add(n.File)
			}
			err = s.ended()
			return err == nil
		})
		if err != nil {
			return err
		}
		slices.Reverse(todo[after:])
	}
	return nil
}

func (m *Summary) add(f *file) {
	m.Files++
	m.Size += f.size()
	m.Space += f.space()
}

// space is the bytes of all copies.
func (f *file) space() int64 { return f.full() * int64(f.Replication) }

// full is the bytes of one copy; a block that is written counts as a full one.
func (f *file) full() int64 {
	n := f.settled()
	for i := range f.Tail {
		if b := &f.Tail[i]; b.State != complete {
			n += f.BlockSize
			if i < len(f.Tail)-1 {
				n -= b.Size
			}
		}
	}
	return n
}
