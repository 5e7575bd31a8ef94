package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// File is what a file says, in its order.
type File struct {
	Name     string
	Sections []Section
}

// Section is one [NAME] with its entries. Words of the name are separated by one
// space.
type Section struct {
	Name    string
	Line    int
	Entries []Entry
}

// Entry is one KEY = VALUE. The value may be empty.
type Entry struct {
	Key, Value string
	Line       int
}

// maxLine is the longest line that is taken, in bytes.
const maxLine = 64 << 10

// Parse reads a file; name is what errors call it. It returns all that is wrong
// with its form, line by line, not just the first.
func Parse(name string, r io.Reader) (*File, error) {
	f := &File{Name: name}
	var wrong []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if err := f.take(n, line); err != nil {
			wrong = append(wrong, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		wrong = append(wrong, fmt.Errorf("%s: a line is longer than %d bytes", name, maxLine))
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return f, errors.Join(wrong...)
}

func (f *File) take(n int, line string) error {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return f.Errorf(n, "this is no text: leave out control characters, and write in UTF-8")
	}
	if line[0] == '[' {
		name, closed := strings.CutSuffix(line[1:], "]")
		name = strings.Join(strings.Fields(name), " ")
		if !closed || name == "" {
			return f.Errorf(n, "%s: want [SECTION]", line)
		}
		f.Sections = append(f.Sections, Section{Name: name, Line: n})
		return nil
	}
	key, value, found := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !found || key == "":
		return f.Errorf(n, "%s: want KEY = VALUE", line)
	case len(f.Sections) == 0:
		return f.Errorf(n, "%s is in no section: put a line such as [daemon] before it", key)
	}
	last := &f.Sections[len(f.Sections)-1]
	last.Entries = append(last.Entries, Entry{Key: key, Value: value, Line: n})
	return nil
}

// Errorf returns an error about a line of the file.
func (f *File) Errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", f.Name, line, fmt.Errorf(format, args...))
}

// Repeated says which sections, and which keys in a section, are there more than
// once, except keys that may be.
func (f *File) Repeated(mayBe ...string) error {
	var wrong []error
	sections := map[string]int{}
	for _, s := range f.Sections {
		if first := sections[s.Name]; first != 0 {
			wrong = append(wrong, f.Errorf(s.Line, "[%s] is there already, in line %d: write it once", s.Name, first))
			continue
		}
		sections[s.Name] = s.Line
		keys := map[string]int{}
		for _, e := range s.Entries {
			if first := keys[e.Key]; first != 0 && !slices.Contains(mayBe, e.Key) {
				wrong = append(wrong, f.Errorf(e.Line, "%s is there already, in line %d: write it once", e.Key, first))
			}
			keys[e.Key] = e.Line
		}
	}
	return errors.Join(wrong...)
}

// Unknown returns what to say of a word that is none of the known ones: which one was
// meant, if one is near, else all of them.
func Unknown(word string, known []string) error {
	best, distance := "", 3
	for _, k := range known {
		if d := edits(strings.ToLower(word), k); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Errorf("%s is unknown; did you mean %s?", word, best)
	}
	return fmt.Errorf("%s is unknown; there are %s", word, strings.Join(known, ", "))
}

// edits returns how many letters must be put in, taken out or changed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
