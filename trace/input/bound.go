package input

import (
	"errors"
	"io"
	"sort"
)

// Bound ends the reading of a record that is too long: encoding/csv has no bound
// of its own.
type Bound struct {
	R               io.Reader
	Remaining, Most int
}

var ErrLongRecord = errors.New("record too long")

func (b *Bound) Read(p []byte) (int, error) {
	if b.Remaining <= 0 {
		return 0, ErrLongRecord
	}
	n, err := b.R.Read(p[:min(len(p), b.Remaining)])
	b.Remaining -= n
	return n, err
}

// LineTracker knows in which line a byte is, of those that were read and not yet left
// behind.
type LineTracker struct {
	Bound
	read  int64
	ends  []int64 // of the lines read ahead
	lines int     // that end before these
}

func (l *LineTracker) Read(p []byte) (int, error) {
	n, err := l.Bound.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// Next says that what is before offset is of no interest any more: a new record may
// begin.
func (l *LineTracker) Next(offset int64) {
	l.Remaining = l.Most
	n := sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
	if n > 0 {
		l.lines += n
		l.ends = l.ends[:copy(l.ends, l.ends[n:])]
	}
}

// Line returns the line of a byte, from 1.
func (l *LineTracker) Line(offset int64) int {
	return 1 + l.lines + sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
}
