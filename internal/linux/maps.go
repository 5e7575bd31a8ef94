package linux

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
)

// Range is a piece of an address space.
type Range struct{ Start, End uint64 }

// Len returns its size in bytes.
func (r Range) Len() int64 { return int64(r.End - r.Start) }

// Mapping is a line of /proc/PID/maps: memory of a process, and what it is of.
type Mapping struct {
	Range
	// Rights are the kernel's letters, of the form "rwxp" or "---s".
	Rights string
	Offset uint64
	// Dev is the number of the device, as the kernel writes it, and Inode that of the file; 0
	// without a file.
	Dev   string
	Inode uint64
	// Path is that of the file, with " (deleted)" behind it if it has none any more, or words
	// such as "[heap]", or empty.
	Path string
}

// Writable reports whether the process may write to it.
func (m Mapping) Writable() bool { return m.Rights[1] == 'w' }

// Shared reports whether what is written to it is seen by others.
func (m Mapping) Shared() bool { return m.Rights[3] == 's' }

// anonymous reports whether it holds memory of the process alone, which only swap can take:
// it is private and has no file, or is private and writable.
func (m Mapping) anonymous() bool {
	switch m.Path {
	case "[vvar]", "[vdso]", "[vsyscall]", "[vvar_vclock]":
		return false
	}
	return !m.Shared() && (m.Inode == 0 || m.Writable())
}

// ParseMaps reads the text of /proc/PID/maps. An error is the last that it yields.
func ParseMaps(text []byte) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		for line := range bytes.Lines(text) {
			m, err := parseMapping(string(bytes.TrimSuffix(line, []byte("\n"))))
			if err != nil {
				err = fmt.Errorf("mapping %q: %w", line, err)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// parseMapping reads a line: range, rights, offset, device, inode, path. The path may have
// spaces in it and behind it.
func parseMapping(line string) (m Mapping, err error) {
	var fields [5]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	for _, n := range []struct {
		name string
		to   *uint64
		text string
		base int
	}{{"start", &m.Start, from, 16}, {"end", &m.End, to, 16}, {"offset", &m.Offset, fields[2], 16}, {"inode", &m.Inode, fields[4], 10}} {
		if *n.to, err = strconv.ParseUint(n.text, n.base, 64); err != nil {
			return m, fmt.Errorf("%s: %w", n.name, err)
		}
	}
	if m.End < m.Start {
		return m, errors.New("it ends before it starts")
	}
	if m.Rights = fields[1]; !isRights(m.Rights) {
		return m, fmt.Errorf("%q are no rights", m.Rights)
	}
	if m.Dev = fields[3]; !strings.Contains(m.Dev, ":") {
		return m, fmt.Errorf("%q is no device", m.Dev)
	}
	// The kernel escapes nothing but the line feed.
	m.Path = strings.ReplaceAll(strings.TrimLeft(line, " "), `\012`, "\n")
	return m, nil
}

// isRights reports whether s has one of two letters at each of four places.
func isRights(s string) bool {
	if len(s) != 4 {
		return false
	}
	for i, letters := range []string{"r-", "w-", "x-", "ps"} {
		if !strings.Contains(letters, s[i:i+1]) {
			return false
		}
	}
	return true
}

// Maps lists what a process has mapped. An error is the last that it yields.
func (p ProcFS) Maps(pid int) iter.Seq2[Mapping, error] {
	text, err := os.ReadFile(p.path(strconv.Itoa(pid), "maps"))
	if err != nil {
		return func(yield func(Mapping, error) bool) { yield(Mapping{}, err) }
	}
	return ParseMaps(text)
}

// Mapped returns the path that leads to the file of a mapping, whatever is at its own.
func (p ProcFS) Mapped(pid int, m Mapping) string {
	return p.path(strconv.Itoa(pid), "map_files", fmt.Sprintf("%x-%x", m.Start, m.End))
}

// Anonymous lists the memory of a process that only swap can take.
func (p ProcFS) Anonymous(pid int) (list []Range, err error) {
	for m, err := range p.Maps(pid) {
		if err != nil {
			return nil, err
		}
		if m.anonymous() {
			list = append(list, m.Range)
		}
	}
	return list, nil
}
