package inspect

import (
	"fmt"

	"headrace/internal/linux"
)

// A session is joined only by being born in it. So CRIU can restore a process in
// the session of an ancestor, or, of those that init has adopted, in any session. It
// dumps all others as well, and cannot bring them back.

// lostSession returns the first process whose session cannot be made again, or that
// is not below root, where CRIU looks for processes. The
// tree is a whole task, and root the process that CRIU is told to dump.
func lostSession(tree []linux.Stat, root int) *Loss {
	by := make(map[int]linux.Stat, len(tree))
	for _, p := range tree {
		by[p.PID] = p
	}
	// bornIn is the session that a process must have been in when it forked.
	bornIn := make(map[int]int)
	for _, p := range tree {
		if p.PID == root {
			continue
		}
		if _, ok := by[p.PPID]; !ok {
			return &Loss{PID: p.PID, Comm: p.Comm, Has: "lost its place below the task's first process when it was restored, and would be left out"}
		}
		if p.SID == p.PID || p.PPID == root || by[p.PPID].SID == p.SID {
			continue
		}
		for a := p.PPID; a != p.SID; a = by[a].PPID {
			if _, ok := by[a]; !ok {
				return sessionLoss(p)
			}
			if s, ok := bornIn[a]; ok && s != p.SID {
				return sessionLoss(p)
			}
			bornIn[a] = p.SID
		}
	}
	return nil
}

func sessionLoss(p linux.Stat) *Loss {
	return &Loss{PID: p.PID, Comm: p.Comm, Has: fmt.Sprintf(
		"the session %d of a process that has ended or is not above it, which cannot be restored", p.SID)}
}
