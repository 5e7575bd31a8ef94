package dfs

import (
	"errors"

	"headrace/block"
	"headrace/internal/crash"
	"headrace/meta"
)

// recoverBlocks has the blocks whose writers have gone closed at the length that is here, and
// then their files.
func (n *Node) recoverBlocks() {
	var all []meta.Recovery
	n.ask(func(q meta.Query) {
		if !q.SafeMode() {
			all = q.Recoveries()
		}
	})
	for _, r := range all {
		length, err := n.recoverBlock(r)
		if err != nil {
			n.told("recover a block", err) // again in the next round, under a newer stamp when this one's time is over
			continue
		}
		n.propose(&meta.CommitRecovery{Block: r.Block.ID, Stamp: r.Stamp, Size: length, Delete: length == 0, Close: true, Nodes: []string{n.Identity.Node}})
	}
}

// recoverBlock closes the copy of a block, and returns how long it is. Nothing of a block is as
// good as none, as in HDFS (BlockRecoveryWorker).
func (n *Node) recoverBlock(r meta.Recovery) (int64, error) {
	id := int64(r.Block.ID)
	i, err := n.Blocks.Stat(id)
	if errors.Is(err, block.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if i.State == block.Final && i.Stamp == r.Stamp { // the node died before it had said so
		return i.Length, nil
	}
	// The copy may have an older stamp than the file knows, when the power has failed; it is
	// what there is.
	b := block.Block{ID: id, Stamp: min(i.Stamp, r.Block.Stamp)}
	if i, err = n.Blocks.StartRecovery(b, r.Stamp); err != nil {
		return 0, err
	}
	crash.Here("dfs.recover.started")
	if i.Length == 0 {
		return 0, nil
	}
	err = n.Blocks.FinishRecovery(b, r.Stamp, i.Length)
	crash.Here("dfs.recover.finished")
	return i.Length, err
}

// Copies returns how many finished copies of a block there are, as a client describes it.
func (n *Node) Copies(b *meta.Block) uint16 {
	if b == nil {
		return 0
	}
	i, err := n.Blocks.Stat(int64(b.ID))
	if err != nil || i.State != block.Final || i.Stamp != b.Stamp || i.Length != b.Size {
		return 0
	}
	return 1
}
