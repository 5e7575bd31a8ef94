package warm

import (
	"slices"
	"time"
)

// portion is what a request wants of one device. The engine's lock protects it.
type portion struct {
	r    *request
	lane *lane
	// files are those on the device, in order; what is before at and pos is done.
	files []int32
	at    int
	pos   uint32
	// again has positions that are wanted once more, sorted.
	again []uint32
	// following has positions that are in memory without being locked, those first
	// that were looked at longest ago.
	following []uint32
	// checking has a position of each file of which something is locked, in the same order.
	checking []uint32
	// leased are files that somebody else has a lease on.
	leased map[int32]lease
	// active: it is on its lane's list of those that may want something.
	active bool
}

// add appends files, which are behind all others of the portion.
func (s *portion) add(files []int32) {
	if s.at == len(s.files) && len(files) > 0 {
		s.pos = s.r.start[files[0]]
	}
	s.files = append(s.files, files...)
	s.lane.activate(s)
}

// refer has the request be in a block's list, and its file be looked at for as long as anything of it is locked. The
// engine's lock is held.
func (s *portion) refer(b *block, pos uint32) {
	b.refer(s.r, pos)
	if file := int32(s.r.fileOf(pos)); !s.r.checked[file] {
		s.r.checked[file] = true
		s.checking = append(s.checking, pos)
		s.lane.start()
	}
}

// take adds a file that turned out to be on this device.
func (s *portion) take(file int32) {
	if len(s.files) == 0 || s.files[len(s.files)-1] < file {
		s.add([]int32{file})
		return
	}
	for pos := s.r.start[file]; pos < s.r.start[file+1]; pos++ {
		s.ask(pos)
	}
}

// ask puts a position among those that are wanted once more.
func (s *portion) ask(pos uint32) {
	if i, found := slices.BinarySearch(s.again, pos); !found {
		s.again = slices.Insert(s.again, i, pos)
	}
	s.lane.activate(s)
}

// lease is that of another program on a file. The file is put aside, and tried again from time to time.
type lease struct {
	since time.Time
	aside bool
}

// leaseTime is how long a file with a lease is tried: longer than the kernel has a lease last that is to be given
// back, unless its settings were changed.
const leaseTime = 2 * time.Minute

// setAside puts a file aside on which somebody has a lease, and reports whether it is to be tried again.
func (s *portion) setAside(file int, now time.Time) bool {
	l, known := s.leased[int32(file)]
	if !known {
		l.since = now
	}
	if now.Sub(l.since) > leaseTime {
		delete(s.leased, int32(file))
		return false
	}
	if s.leased == nil {
		s.leased = map[int32]lease{}
	}
	l.aside = true
	s.leased[int32(file)] = l
	return true
}

// tryLeased has all files be wanted once more that were put aside.
func (s *portion) tryLeased() {
	for file, l := range s.leased {
		switch {
		case !slices.Contains(s.r.state[s.r.start[file]:s.r.start[file+1]], remaining):
			delete(s.leased, file) // nobody wants it any more
		case l.aside:
			s.leased[file] = lease{since: l.since}
			s.take(file)
		}
	}
}

// mine reports whether a position is still to be done, and here.
func (s *portion) mine(pos uint32) bool {
	if s.r.state[pos] != remaining {
		return false
	}
	if s.r.moved == nil && len(s.leased) == 0 {
		return true
	}
	file := int32(s.r.fileOf(pos))
	to, moved := s.r.moved[file]
	return (!moved || to == s) && !s.leased[file].aside
}

// lookahead is how many wanted blocks of each request are shown to the policy at
// most, passedOver how many others are passed over in search of the later ones.
const lookahead, passedOver = 3, 64

// upcoming appends the next n positions that are still to be done, in order. There
// are none only if nothing is left.
func (s *portion) upcoming(dst []uint32, n int) []uint32 {
	s.forget()
	again, at, pos := s.again, s.at, s.pos
	found := 0
	for range n + passedOver {
		var next uint32
		switch {
		case found == n, at == len(s.files) && len(again) == 0:
			return dst
		case at == len(s.files), len(again) > 0 && again[0] < pos:
			next, again = again[0], again[1:]
		default:
			if len(again) > 0 && again[0] == pos {
				again = again[1:]
			}
			next = pos
			at, pos = s.after(at, pos)
		}
		if s.mine(next) {
			dst = append(dst, next)
			found++
		}
	}
	return dst
}

// forget drops what is done from the front.
func (s *portion) forget() {
	for s.at < len(s.files) && !s.mine(s.pos) {
		s.at, s.pos = s.after(s.at, s.pos)
	}
	n := 0
	for n < len(s.again) && !s.mine(s.again[n]) {
		n++
	}
	s.again = s.again[n:]
}

// after returns the place of the position after pos, which is in the file at.
func (s *portion) after(at int, pos uint32) (int, uint32) {
	if pos+1 < s.r.start[s.files[at]+1] {
		return at, pos + 1
	}
	if at++; at < len(s.files) {
		pos = s.r.start[s.files[at]]
	}
	return at, pos
}
