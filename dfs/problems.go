package dfs

import (
	"headrace/meta"
	"headrace/wire"
)

// A Problem is a block of which there is no good copy.
type Problem struct {
	Block uint64
	Path  string
	Text  string
}

// Missing is the text of a problem with a block of which there is nothing.
const Missing = "missing"

// Problems returns those of files at path and below it, by the numbers of blocks, from one on; none when f
// returns false. A node that does not answer has nothing.
func (n *Node) Problems(by meta.Caller, from uint64, f func(Problem) bool) error {
	for {
		var blocks []meta.Placed
		if err := n.Query(by, func(q meta.Query) error {
			for p := range q.All(from) {
				if blocks = append(blocks, p); len(blocks) == askedAtOnce {
					break
				}
			}
			return nil
		}); err != nil || len(blocks) == 0 {
			return err
		}
		if err := n.ctx.Err(); err != nil {
			return err
		}
		from = blocks[len(blocks)-1].ID + 1
		places := n.Places()
		copies := n.Keeper.all.lookAround(places, blocks)
		var bad []Problem
		if err := n.Query(by, func(q meta.Query) error {
			for i := range blocks {
				text := problem(places, &blocks[i], copies)
				if text == "" || !q.Has(blocks[i].ID) {
					continue
				}
				if path, there := q.PathOf(blocks[i].File); there {
					bad = append(bad, Problem{blocks[i].ID, path, text})
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for _, p := range bad {
			if !f(p) {
				return nil
			}
		}
	}
}

// problem says what is wrong with a block, or nothing: of several copies, what is wrong with the best.
func problem(places Places, b *meta.Placed, copies census) string {
	text := Missing
	if b.Size == 0 {
		text = "" // its writer has not begun
	}
	for _, name := range places.names(b.LocatedBlock) {
		c := copies[name][b.ID]
		switch {
		case c.GetState() == wire.BlockCopy_NONE:
		case c.Damaged:
			text = "damaged"
		case c.Stamp < b.Stamp:
			text = "older than the file"
		case c.Length < b.Size:
			text = "shorter than the file"
		default:
			return ""
		}
	}
	return text
}
