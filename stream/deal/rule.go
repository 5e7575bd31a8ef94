package deal

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Split says what a unit is made of.
type Split string

const (
	// Lines are records that end with a delimiter.
	Lines Split = "lines"
	// Fixed are records of one size.
	Fixed Split = "fixed"
	// Raw are bytes without records.
	Raw Split = "raw"
	// Files are whole files, dealt by name.
	Files Split = "files"
)

// MaxDelimiter bounds the delimiter, so that it fits any block.
const MaxDelimiter = 1 << 10

// Rule says how the records of a file end.
type Rule struct {
	Split Split `json:"split"`
	// Delimiter ends a record of Lines.
	Delimiter []byte `json:"delimiter,omitempty"`
	// Size is that of a record of Fixed, in bytes.
	Size int64 `json:"size,omitempty"`
}

// Check says what is wrong with the rule.
func (r Rule) Check() error {
	switch r.Split {
	case Lines:
		if len(r.Delimiter) == 0 {
			return errors.New("the delimiter is empty: give at least one byte, or split raw")
		}
		if len(r.Delimiter) > MaxDelimiter {
			return fmt.Errorf("the delimiter has %d bytes; at most %d are allowed", len(r.Delimiter), MaxDelimiter)
		}
	case Fixed:
		if r.Size <= 0 {
			return fmt.Errorf("records of %d bytes: give a positive size", r.Size)
		}
	case Raw, Files:
	default:
		return fmt.Errorf("unknown split %q: want lines, fixed, raw or files", r.Split)
	}
	return nil
}

// CheckSize says why a file of some size cannot be dealt: what follows the part of a
// record would be taken for the rest of it.
func (r Rule) CheckSize(size int64) error {
	if r.Split != Fixed || size%r.Size == 0 {
		return nil
	}
	return fmt.Errorf("%d bytes are no whole number of records of %d: %d are left over", size, r.Size, size%r.Size)
}

// String returns the rule for people.
func (r Rule) String() string {
	switch r.Split {
	case Lines:
		if string(r.Delimiter) == "\n" {
			return "lines"
		}
		return "lines:" + strings.Trim(strconv.Quote(string(r.Delimiter)), `"`)
	case Fixed:
		return "fixed:" + strconv.FormatInt(r.Size, 10)
	}
	return string(r.Split)
}

// Context returns how many bytes before a block Cut needs to see.
func (r Rule) Context() int {
	if r.Split == Lines {
		return len(r.Delimiter)
	}
	return 0
}

// Cut returns the distance from off to the first record that starts at off or later,
// when data holds the bytes of the file from off on and prev those before it (at
// least Context of them, or all there are). It is -1 when none is known to start
// inside data or right behind it.
//
// A delimiter that overlaps itself ("\n\n") may be found at any of its places:
// no byte is lost or dealt twice, and every unit starts behind a delimiter.
func (r Rule) Cut(off int64, prev, data []byte) int {
	if off == 0 {
		return 0
	}
	switch r.Split {
	case Fixed:
		if rest := off % r.Size; rest != 0 {
			if r.Size-rest > int64(len(data)) {
				return -1
			}
			return int(r.Size - rest)
		}
		return 0
	case Lines:
		return r.cutLines(prev, data)
	}
	return 0
}

func (r Rule) cutLines(prev, data []byte) int {
	m := len(r.Delimiter)
	prev = prev[max(0, len(prev)-m):]
	for i := range prev {
		inPrev := len(prev) - i // bytes of the delimiter that are in prev
		if inPrev > m || m-inPrev > len(data) {
			continue
		}
		if bytes.Equal(prev[i:], r.Delimiter[:inPrev]) && bytes.HasPrefix(data, r.Delimiter[inPrev:]) {
			return m - inPrev
		}
	}
	if i := bytes.Index(data, r.Delimiter); i >= 0 {
		return i + m
	}
	return -1
}

// Terminated tells whether the end of a file, of which these are the last
// bytes, is the end of a record.
func (r Rule) Terminated(tail []byte) bool {
	return r.Split != Lines || bytes.HasSuffix(tail, r.Delimiter)
}
