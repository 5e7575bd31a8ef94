package input

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Row is a line of a table: it knows its columns by their names.
type Row struct {
	p       *Parser
	columns map[string]int
	width   int
	fields  []string
}

// Table returns the rows of a table whose first line has the names of the columns. Fields
// are apart by sep, and may be in quotes where they have no sep in them. A row is valid
// until the next one.
func Table(r io.Reader, sep byte) iter.Seq2[*Row, error] {
	row := &Row{}
	rows := Lines(r, func(p *Parser, text []byte) (*Row, error) {
		row.p = p
		row.fields = row.fields[:0]
		for field := range bytes.SplitSeq(text, []byte{sep}) {
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
			return nil, nil
		case len(row.fields) != row.width:
			return nil, p.Wrong("", nil, fmt.Sprintf("%d fields, the first line has %d", len(row.fields), row.width))
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
