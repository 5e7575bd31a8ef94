package consumer

import (
	"fmt"

	"golang.org/x/sys/unix"

	"headrace/stream/protocol"
)

// arena is shared memory, mapped. The client's mu guards it.
type arena struct {
	mem []byte
	// pieces counts those that were not read.
	pieces  int
	dropped bool
}

// piece is a part of a unit, in shared memory or, with no arena, of its own.
type piece struct {
	data  []byte
	arena *arena
}

// inline is the number of bytes that came through the socket.
func (p piece) inline() int {
	if p.arena != nil {
		return 0
	}
	return len(p.data)
}

// addArena maps the memory that a message announces.
func (s *session) addArena(m *protocol.Arena) error {
	f := s.conn.TakeFile()
	if f == nil {
		return &ProtocolError{fmt.Sprintf("arena %d came without a descriptor", m.ID)}
	}
	defer f.Close()
	if s.arenas[m.ID] != nil || m.ID == 0 {
		return &ProtocolError{fmt.Sprintf("arena %d is announced twice, or 0", m.ID)}
	}
	// Memory that shrinks while it is read would end this process with SIGBUS.
	var st unix.Stat_t
	fd := int(f.Fd())
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return &ProtocolError{fmt.Sprintf("arena %d is no shared memory: %v", m.ID, err)}
	}
	if seals&unix.F_SEAL_SHRINK == 0 || m.Size == 0 || m.Size > uint64(st.Size) {
		return &ProtocolError{fmt.Sprintf("arena %d has %d bytes and seals %#x; %d bytes that cannot shrink are needed", m.ID, st.Size, seals, m.Size)}
	}
	mem, err := unix.Mmap(fd, 0, int(m.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %d bytes of shared memory: %w", m.Size, err)
	}
	a := &arena{mem: mem}
	s.arenas[m.ID], s.mapped[a] = a, true
	return nil
}

// dropArena forgets an arena, which is unmapped when its last piece was read.
func (s *session) dropArena(m *protocol.Drop) error {
	a := s.arenas[m.ID]
	if a == nil {
		return &ProtocolError{fmt.Sprintf("arena %d, which is not known, is dropped", m.ID)}
	}
	delete(s.arenas, m.ID)
	a.dropped = true
	s.unmapUnused(a)
	return nil
}

// done takes note that a piece is not needed any more.
func (s *session) done(p piece) {
	s.queued -= p.inline()
	if p.arena != nil {
		p.arena.pieces--
		s.unmapUnused(p.arena)
	}
}

func (s *session) unmapUnused(a *arena) {
	if a.dropped && a.pieces == 0 {
		s.unmap(a)
	}
}

// unmap gives memory back. Nobody reads in it.
func (s *session) unmap(a *arena) {
	delete(s.mapped, a)
	_ = unix.Munmap(a.mem) // fails only for what is not mapped
}
