package input

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// Row is a line of a table: it knows its columns by their names.
type Row struct {
	p       *Parser
	columns map[string]int
	width   int
	fields  []string
}

// Free is a column with text of anybody's, in a table that is written without regard to what is in its fields:
// there may be separators and ends of lines in that text.
type Free struct {
	// Column is its name. In a table that has no such column a line with too many or too few fields is an error.
	Column string
	// Mended is how many rows there were with such a text, Broken how many lines were left out because
	// they are no row alone or with those beside them.
	Mended, Broken int64
	rows           int64
	held           [][]byte // the fields so far of a row that goes on in the next line
}

// maxBroken is how many lines may be broken where fewer than those are rows: more are an error, for it is no such table.
const maxBroken = 10

// row returns the fields of the row that ends with a line, nil if none does: then ok tells whether to go on. Of a
// row that is cut in two the first part ends in the column, which is the one at.
func (f *Free) row(fields [][]byte, at, width int, sep byte) (row [][]byte, ok bool) {
	if held := f.held; held != nil {
		f.held = nil
		if len(fields) < width && len(held)+len(fields)-1 <= width && len(held[at]) < MaxLine {
			held[at] = slices.Concat(held[at], []byte(" "), fields[0])
			fields = append(held, fields[1:]...)
			if len(fields) == width {
				f.Mended++
			}
		} else {
			f.Broken++
		}
	}
	switch surplus := len(fields) - width; {
	case surplus >= 0:
		if surplus > 0 {
			f.Mended++
		}
		f.rows++
		return slices.Concat(fields[:at], [][]byte{bytes.Join(fields[at:at+surplus+1], []byte{sep})}, fields[at+surplus+1:]), true
	case len(fields) == at+1:
		for _, x := range fields { // the bytes of a line are those of the next one soon
			f.held = append(f.held, bytes.Clone(x))
		}
	default:
		f.Broken++
	}
	return nil, f.Broken <= max(maxBroken, f.rows)
}

// Table returns the rows of a table whose first line has the names of the columns. Fields
// are apart by sep, and may be in quotes where they have no sep in them. A row is valid
// until the next one. Free is the column that may have seps in it; nil: none.
func Table(r io.Reader, sep byte, free *Free) iter.Seq2[*Row, error] {
	row := &Row{}
	spilling := -1
	rows := Lines(r, func(p *Parser, text []byte) (*Row, error) {
		row.p = p
		fields := bytes.Split(text, []byte{sep})
		n := len(fields)
		if spilling >= 0 {
			var ok bool
			if fields, ok = free.row(fields, spilling, row.width, sep); fields == nil && ok {
				return nil, nil
			}
		}
		row.fields = row.fields[:0]
		for _, field := range fields {
			row.fields = append(row.fields, strings.Trim(string(bytes.TrimSpace(field)), `"`))
		}
		switch {
		case row.columns == nil:
			row.columns, row.width = map[string]int{}, len(row.fields)
			for i, name := range row.fields {
				name = strings.ToLower(strings.TrimPrefix(name, "\ufeff"))
				if _, twice := row.columns[name]; !twice {
					row.columns[name] = i
				}
			}
			if free != nil && row.Has(free.Column) {
				spilling = row.columns[strings.ToLower(free.Column)]
			}
			return nil, nil
		case len(row.fields) != row.width:
			return nil, p.Wrong("", nil, fmt.Sprintf("%d fields, the first line has %d", n, row.width))
		}
		return row, nil
	})
	return func(yield func(*Row, error) bool) {
		for row, err := range rows {
			if row == nil && err == nil {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
		if free != nil && free.held != nil {
			free.Broken++
		}
	}
}

// Has reports whether there is a column of one of these names.
func (r *Row) Has(names ...string) bool {
	for _, name := range names {
		if _, ok := r.columns[strings.ToLower(name)]; ok {
			return true
		}
	}
	return false
}

// Get returns the field of the first of these columns that is there; empty if none is.
func (r *Row) Get(names ...string) string {
	for _, name := range names {
		if i, ok := r.columns[strings.ToLower(name)]; ok {
			return r.fields[i]
		}
	}
	return ""
}

// Wrong returns an error about a field.
func (r *Row) Wrong(field, value, reason string) error {
	return r.p.Wrong(field, []byte(value), reason)
}
