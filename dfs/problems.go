package dfs

import (
	"errors"

	"headrace/block"
	"headrace/meta"
)

// A Problem is a block of which no good copy is here.
type Problem struct {
	Block uint64
	Path  string
	Text  string
}

// Missing is the text of a problem with a block of which there is nothing.
const Missing = "missing"

// Problems returns those of files at path and below it, by the numbers of blocks, from one on; none when f
// returns false.
func (n *Node) Problems(by meta.Caller, from uint64, f func(Problem) bool) error {
	return n.Query(by, func(q meta.Query) error {
		for e := range q.Expected(from) {
			text := n.problem(e)
			if text == "" {
				continue
			}
			path, there := q.PathOf(e.File)
			if there && !f(Problem{e.ID, path, text}) {
				return nil
			}
		}
		return nil
	})
}

// problem says what is wrong with a block, or nothing.
func (n *Node) problem(e meta.Expected) string {
	i, err := n.Blocks.Stat(int64(e.ID))
	switch {
	case errors.Is(err, block.ErrNotFound) && e.Size == 0:
		return "" // its writer has not begun
	case err != nil:
		return Missing
	case i.Damaged:
		return "damaged"
	case i.Stamp < e.Stamp:
		return "older than the file"
	case i.Length < e.Size:
		return "shorter than the file"
	}
	return ""
}
