package dfs

import (
	"fmt"

	"headrace/meta"
)

const (
	manyBlocks = 1000    // that an answer may name without waiting for other such answers
	mostBlocks = 200_000 // that it may name at all: no client takes more
)

// Large reports whether an answer about blocks is to wait for others like it: it takes many times its own memory while it is put together. It
// refuses one that would be too large.
func Large(l *meta.Located) (bool, error) {
	if l != nil && len(l.Blocks) > mostBlocks {
		return true, &meta.Error{Class: "java.io.IOException", Message: fmt.Sprintf("%d blocks are asked about, more than %d: ask about parts of the file", len(l.Blocks), mostBlocks)}
	}
	return l != nil && len(l.Blocks) > manyBlocks, nil
}
