package mend

import (
	"errors"

	"headrace/internal/criu/image"
)

// A daemon is in the session of a process that has ended, and init has adopted it.
// CRIU restores such a process as the child of a helper that makes the session and
// ends. But init becomes a subreaper again only after that, so the orphan goes to
// the supervisor instead: it is no longer below init, where the next dump looks for
// processes, and would be missing from it.
//
// So daemons come back in init's session. Their process groups stay; what they can
// see of the difference is what getsid(2) says.

// process is an entry of pstree.img.
type process struct{ pid, parent, session uint64 }

// sessions moves the processes of sessions whose leader has ended into the session
// of the root.
func sessions(path string) error {
	f, err := image.Read(path)
	if err != nil {
		return err
	}
	list := make([]process, len(f.Entries))
	for i, e := range f.Entries {
		var ok [3]bool
		list[i].pid, ok[0] = e.Uint(image.PstreePID)
		list[i].parent, ok[1] = e.Uint(image.PstreeParent)
		list[i].session, ok[2] = e.Uint(image.PstreeSession)
		if ok != [3]bool{true, true, true} {
			return errors.New("pstree.img: an entry lacks a field")
		}
	}
	root, abandoned := abandonedSessions(list)
	if len(abandoned) == 0 {
		return nil
	}
	for i, p := range list {
		if abandoned[p.session] {
			f.Entries[i] = f.Entries[i].SetUint(image.PstreeSession, root.session)
		}
	}
	return rewrite(path, f)
}

// abandonedSessions finds the root, and the sessions without a leader that are
// known from processes which the root has adopted.
func abandonedSessions(list []process) (root process, abandoned map[uint64]bool) {
	alive := make(map[uint64]bool, len(list))
	for _, p := range list {
		alive[p.pid] = true
		if p.parent == 0 {
			root = p
		}
	}
	abandoned = make(map[uint64]bool)
	for _, p := range list {
		if p.parent == root.pid && p.session != root.session && !alive[p.session] {
			abandoned[p.session] = true
		}
	}
	return root, abandoned
}
