package names

import (
	"fmt"
	"path"

	"headrace/meta"
)

func (t *tree) create(o *meta.Create, r meta.Result) string {
	n := t.at[o.Path]
	if n != nil && o.Flags&meta.FlagOverwrite == 0 {
		open := n.holder != ""
		if e := t.reclaim(n, o.Holder); e != "" {
			return e
		}
		if open {
			return kept + "FileAlreadyExistsException"
		}
		return "FileAlreadyExistsException"
	}
	delete(t.at, o.Path)
	dir, some := path.Dir(o.Path), ""
	if t.at[dir] == nil { // with the mode of what they are made in
		low := path.Dir(dir)
		for t.at[low] == nil {
			low = path.Dir(low)
		}
		if e := t.mkdirs(dir, t.at[low].mode|0o300); e != "true" {
			return e
		}
		some = kept
	}
	if e := t.affords(dir, 1, 0, ""); e != "" {
		return some + e
	}
	n = &thing{mode: o.Mode, owner: "root", group: "root", accessed: t.now, copies: o.Replication, blockSize: o.BlockSize, holder: o.Holder}
	if s, is := r.(*meta.Status); is {
		n.id = s.ID
	}
	t.at[o.Path], t.renewed[o.Holder] = n, t.now
	return "ok"
}

// recover closes a file whose writer is to go, or begins to, in the name of an heir if there is one.
func (t *tree) recover(n *thing, heir string) string {
	last, before := n.last(), n.fromEnd(2)
	done := before == nil || before.state == isComplete
	switch {
	case done && (last == nil || last.state == isComplete):
		n.holder = ""
		return "true"
	case !done && last.state == isCommitted:
		return "AlreadyBeingCreatedException"
	}
	if t.now >= last.until {
		last.state, last.until = isRecovering, t.now+recoveryTime
	}
	if heir != "" {
		n.holder = heir
	}
	t.renewed[n.holder] = t.now
	return "false"
}

// reclaim takes a file from its writer for another operation, and says why it cannot.
func (t *tree) reclaim(n *thing, holder string) string {
	switch b := n.last(); {
	case n.holder == "":
		return ""
	case n.holder == holder:
		return "AlreadyBeingCreatedException"
	case t.now-t.renewed[n.holder] > softLimit:
		switch e := t.recover(n, ""); e {
		case "true":
			return ""
		case "false":
			return kept + "RecoveryInProgressException"
		default:
			return e
		}
	case b != nil && b.state == isRecovering:
		return "RecoveryInProgressException"
	}
	return "AlreadyBeingCreatedException"
}

// expire takes files from those who have not been heard of.
func (t *tree) expire() {
	var due []*thing
	for _, p := range t.below("") {
		if n := t.at[p]; n.holder != "" && t.now-t.renewed[n.holder] > hardLimit {
			due = append(due, n)
		}
	}
	for _, n := range due {
		if e := t.recover(n, "HDFS_NameNode"); e != "true" && e != "false" {
			n.holder = ""
		}
	}
}

func (t *tree) append(o *meta.Append) string {
	n := t.at[o.Path]
	if n == nil {
		return "FileNotFoundException"
	}
	if e := t.reclaim(n, o.Holder); e != "" {
		return e
	}
	last := n.last()
	if last != nil && last.state == isCommitted {
		last.state = isComplete
	}
	if last != nil {
		if e := t.affords(path.Dir(o.Path), 0, (n.blockSize-last.Size)*int64(n.copies), ""); e != "" {
			return e
		}
	}
	goesOn := last != nil && !o.NewBlock && last.Size < n.blockSize
	if goesOn && (o.Block != last.ID || o.Stamp != last.Stamp) {
		return "RetriableException"
	}
	n.holder, t.renewed[o.Holder] = o.Holder, t.now
	switch {
	case !goesOn:
	case o.Room < n.blockSize:
		last.filled = true
	default:
		last.state, last.filled = isBuilding, false
	}
	return "ok"
}

func (t *tree) truncate(o *meta.Truncate) string {
	n := t.at[o.Path]
	if n == nil {
		return "FileNotFoundException"
	}
	if b := n.last(); b != nil && b.cut > 0 {
		if o.Size == n.size()-b.Size+b.cut {
			return "false"
		}
		return "AlreadyBeingCreatedException"
	}
	if e := t.reclaim(n, o.Holder); e != "" {
		return e
	}
	switch size := n.size(); {
	case size == o.Size:
		return "true"
	case size < o.Size:
		return "HadoopIllegalArgumentException"
	}
	had := n.full()
	for n.last() != nil && n.size()-n.last().Size >= o.Size {
		n.blocks = n.blocks[:len(n.blocks)-1]
	}
	b := n.last()
	open := n.size() > o.Size
	if open { // its last block counts as a full one meanwhile
		b.cut, b.state, b.until = o.Size-(n.size()-b.Size), isRecovering, t.now+recoveryTime
	}
	more := n.full() - had
	n.blocks = append(n.blocks, piece{counted: 0, state: isComplete, Block: meta.Block{Size: -more}}) // as it counted before
	e := t.affords(path.Dir(o.Path), 0, more*int64(n.copies), "")
	n.blocks = n.blocks[:len(n.blocks)-1]
	switch {
	case e != "":
		return e
	case open:
		n.holder, t.renewed[o.Holder] = o.Holder, t.now
		return "false"
	}
	return "true"
}

// file returns that of a number, or nil.
func (t *tree) file(id uint64) *thing {
	for _, n := range t.at {
		if !n.dir && n.id == id {
			return n
		}
	}
	return nil
}

// holding returns the file of a block, and the block if it is one of the last two.
func (t *tree) holding(block uint64) (*thing, *piece) {
	for _, n := range t.at {
		for i := range n.blocks {
			if n.blocks[i].ID != block {
				continue
			}
			if i < len(n.blocks)-2 {
				return n, nil
			}
			return n, &n.blocks[i]
		}
	}
	return nil, nil
}

// commitRecovery ends the recovery of a block.
func (t *tree) commitRecovery(o *meta.CommitRecovery) string {
	n, b := t.holding(o.Block)
	switch {
	case n == nil:
		return "" // it depends on whether the file is gone altogether
	case n.holder == "", b == nil, b.state == isComplete:
		return "ok"
	case b.state != isRecovering, b.stamp != o.Stamp, b.cut > 0 && o.Size > b.cut:
		return "IOException"
	}
	if n.holder = ""; o.Delete {
		n.blocks = n.blocks[:len(n.blocks)-1]
	} else {
		*b = piece{Block: meta.Block{ID: o.Block, Stamp: o.Stamp, Size: o.Size}, counted: int64(len(o.Nodes))}
	}
	return "ok"
}

// commit notes what a client says of the last block.
func (n *thing) commit(given *meta.Block, copies uint16) string {
	b := n.last()
	switch {
	case given == nil || b == nil || b.state == isComplete:
		return ""
	case b.state == isRecovering, b.state == isBuilding && b.Stamp != given.Stamp:
		return "IOException"
	case b.state == isBuilding && (b.ID != given.ID || given.Size > n.blockSize):
		return "IOException"
	case b.state == isBuilding:
		b.state, b.Size = isCommitted, given.Size
	}
	if *given == b.Block {
		b.counted = max(b.counted, int64(copies))
	}
	if b.counted > 0 {
		b.state = isComplete
	}
	return ""
}

func same(given *meta.Block, b *piece) bool {
	if given == nil || b == nil {
		return given == nil && b == nil
	}
	return given.ID == b.ID && given.Stamp == b.Stamp
}

// write is what the writer of a file does.
func (t *tree) write(op meta.Op, r meta.Result) string {
	leased := func(n *thing, holder string) string {
		switch {
		case n == nil:
			return "FileNotFoundException"
		case n.holder != holder:
			return "LeaseExpiredException"
		}
		return ""
	}
	written := func(old *meta.Block, holder string) (*piece, string) {
		n, b := t.holding(old.ID)
		switch {
		case n == nil, b == nil, b.state != isBuilding, n.holder == "":
			return nil, "IOException"
		case n.holder != holder:
			return nil, "LeaseExpiredException"
		}
		return b, ""
	}
	switch o := op.(type) {
	case *meta.NewStamp:
		if _, e := written(&o.Block, o.Holder); e != "" {
			return e
		}
		return "ok"
	case *meta.UpdatePipeline:
		b, e := written(&o.Old, o.Holder)
		switch {
		case e != "":
			return e
		case o.New.Stamp <= b.Stamp, o.New.Size < b.Size:
			return "IOException"
		}
		b.Stamp, b.Size, b.counted = o.New.Stamp, o.New.Size, 0
		return "ok"
	case *meta.AbandonBlock:
		n := t.file(o.ID)
		if e := leased(n, o.Holder); e != "" {
			return e
		}
		if b := n.last(); b != nil && b.ID == o.Block.ID && b.state != isComplete {
			n.blocks = n.blocks[:len(n.blocks)-1]
		}
		return "ok"
	case *meta.Fsync:
		n := t.file(o.ID)
		if e := leased(n, o.Holder); e != "" {
			return e
		}
		if b := n.last(); b != nil && o.Size > 0 && b.state != isComplete {
			b.Size = o.Size
		}
		return "ok"
	case *meta.Complete:
		n := t.file(o.ID)
		if e := leased(n, o.Holder); e != "" {
			if n != nil && n.holder == "" && same(o.Last, n.last()) {
				return "true"
			}
			return e
		}
		if b := n.fromEnd(2); b != nil && b.state != isComplete {
			return "false"
		}
		if e := n.commit(o.Last, o.Copies); e != "" {
			return e
		}
		if b := n.last(); b != nil && b.state != isComplete {
			return "false"
		}
		n.holder = ""
		return "true"
	case *meta.AddBlock:
		n := t.file(o.ID)
		if e := leased(n, o.Holder); e != "" {
			return e
		}
		return t.addBlock(o, n, r)
	}
	panic(fmt.Sprintf("what does %T?", op))
}

func (t *tree) addBlock(o *meta.AddBlock, n *thing, r meta.Result) string {
	b := n.last()
	switch {
	case same(o.Previous, b), o.Previous == nil && b != nil && (b.Size >= n.blockSize || b.filled) && b.state == isComplete:
	case b == nil, !same(o.Previous, n.fromEnd(2)), b.Size != 0:
		return "IOException"
	default:
		return "ok" // asked again
	}
	if b := n.fromEnd(2); b != nil && b.state != isComplete {
		return "NotReplicatedYetException"
	}
	if e := n.commit(o.Previous, o.Copies); e != "" {
		return e
	}
	if b := n.last(); b != nil && b.state != isComplete {
		return kept + "NotReplicatedYetException"
	}
	p := ""
	for q, m := range t.at {
		if m == n {
			p = q
		}
	}
	if e := t.affords(path.Dir(p), 0, n.blockSize*int64(n.copies), ""); e != "" {
		return kept + e
	}
	next := piece{state: isBuilding}
	if a, is := r.(*meta.Allocated); is {
		next.Block = a.Block
	}
	n.blocks = append(n.blocks, next)
	return "ok"
}
