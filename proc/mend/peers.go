package mend

import "headrace/internal/criu/image"

// CRIU looks for the peer of a unix socket when it reads the socket's entry, and again when it reads an entry whose peer refers back. So
// of one that does not, it must have read the entry before: a socket that listens, of a connection that is not accepted yet, or one of
// datagrams that another is connected to. Else the restore fails. CRIU writes the entries in the order of processes.

// peers puts entries of unix sockets behind those of their peers.
func peers(path string) error {
	f, err := image.Read(path)
	if err != nil {
		return err
	}
	sorted, changed, err := peersFirst(f.Entries)
	if err != nil || !changed {
		return err
	}
	f.Entries = sorted
	return rewrite(path, f)
}

// unixSocket is what matters of a file_entry. That of another kind of file is zero.
type unixSocket struct{ inode, peer uint64 }

func unixSocketOf(e image.Message) (s unixSocket, err error) {
	m, err := e.Message(image.FileUnix)
	if err == nil && m != nil {
		s.inode, _ = m.Uint(image.UnixInode)
		s.peer, _ = m.Uint(image.UnixPeer)
	}
	return s, err
}

func peersFirst(entries []image.Message) (sorted []image.Message, changed bool, err error) {
	peerOf := map[uint64]uint64{}
	for _, e := range entries {
		s, err := unixSocketOf(e)
		if err != nil {
			return nil, false, err
		}
		peerOf[s.inode] = s.peer
	}
	delete(peerOf, 0)
	read := map[uint64]bool{}
	for todo := entries; len(todo) > 0; {
		var later []image.Message
		for _, e := range todo {
			s, err := unixSocketOf(e)
			if err != nil {
				return nil, false, err
			}
			if back, there := peerOf[s.peer]; there && back != s.inode && !read[s.peer] {
				later = append(later, e)
				continue
			}
			read[s.inode] = true
			sorted = append(sorted, e)
		}
		if len(later) == len(todo) { // a ring of sockets
			return append(sorted, later...), changed, nil
		}
		changed = changed || len(later) > 0
		todo = later
	}
	return sorted, changed, nil
}
