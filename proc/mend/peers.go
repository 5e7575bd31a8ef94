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
	sorted, err := peersFirst(f.Entries)
	if err != nil || sorted == nil {
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

// peersFirst returns the entries in their new order, or nil if they are in it already. Of a ring of sockets one comes first.
func peersFirst(entries []image.Message) (sorted []image.Message, err error) {
	sockets, at := make([]unixSocket, len(entries)), map[uint64]int{}
	for i, e := range entries {
		if sockets[i], err = unixSocketOf(e); err != nil {
			return nil, err
		}
		if sockets[i].inode != 0 {
			at[sockets[i].inode] = i
		}
	}
	placed, changed := make([]bool, len(entries)), false
	var place func(i int)
	place = func(i int) {
		if placed[i] {
			return
		}
		placed[i] = true
		if peer, ok := at[sockets[i].peer]; ok && sockets[peer].peer != sockets[i].inode {
			changed = changed || peer > i
			place(peer)
		}
		sorted = append(sorted, entries[i])
	}
	for i := range entries {
		place(i)
	}
	if !changed {
		return nil, nil
	}
	return sorted, nil
}
