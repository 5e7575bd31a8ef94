package consumer

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/stream/protocol"
)

// arena is what pieces lie in: shared memory, mapped, or a file. The client's mu
// guards it.
type arena struct {
	mem []byte
	// file is nil for memory; check knows what it was when the stream was opened, or when it came if it had
	// grown by then, and size is how much of it is dealt.
	file  *os.File
	check fileset.Check
	size  uint64
	// pieces counts those that were not read.
	pieces  int
	dropped bool
}

// piece is a part of a unit: n bytes in a file from at on, or data, in shared memory.
type piece struct {
	arena *arena
	data  []byte
	at    int64
	n     int
}

// end returns how much lies in an arena.
func (a *arena) end() uint64 {
	if a.file != nil {
		return a.size
	}
	return uint64(len(a.mem))
}

// piece returns a piece that lies within an arena.
func (a *arena) piece(off uint64, n uint32) piece {
	p := piece{arena: a, at: int64(off), n: int(n)}
	if a.file == nil {
		p.data = a.mem[off : off+uint64(n)]
	}
	return p
}

func (p piece) inFile() bool { return p.arena.file != nil }

// rest returns the piece without its first bytes.
func (p piece) rest(skip int) piece {
	p.n -= skip
	if p.inFile() {
		p.at += int64(skip)
	} else {
		p.data = p.data[skip:]
	}
	return p
}

// bytes returns the first bytes of the piece, as many as buf takes if they have to be
// read.
func (p piece) bytes(buf []byte) ([]byte, error) {
	if !p.inFile() {
		return p.data, nil
	}
	buf = buf[:min(len(buf), p.n)]
	n, err := p.arena.file.ReadAt(buf, p.at)
	if n > 0 {
		return buf[:n], nil
	}
	return nil, &readError{err}
}

// readError: a file could not be read; io.EOF is one that is shorter than a piece.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// changed tells whether a file is not what it was when the stream was opened. It may
// have grown.
func (a *arena) changed() error {
	why, err := a.check.Changed(a.file)
	if err == nil && why != "" {
		err = fmt.Errorf("it %s while it was read", why)
	}
	return err
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

// addFile takes a file that a message announces.
func (s *session) addFile(m *protocol.File) error {
	f := s.conn.TakeFile()
	if f == nil {
		return &ProtocolError{fmt.Sprintf("file %d came without a descriptor", m.ID)}
	}
	if s.arenas[m.ID] != nil || m.ID == 0 || int64(m.Size) < 0 {
		f.Close()
		return &ProtocolError{fmt.Sprintf("file %d is announced twice, or 0, or of %d bytes", m.ID, m.Size)}
	}
	was, err := fileset.WasNow(f)
	if err != nil {
		f.Close()
		return &ProtocolError{fmt.Sprintf("file %d is none: %v", m.ID, err)}
	}
	if was.Size <= int64(m.Size) && (was.Size < int64(m.Size) || was.Mtime != int64(m.Mtime)) { // it has changed already
		was.Size, was.Mtime, was.End = int64(m.Size), int64(m.Mtime), 0
	}
	a := &arena{file: f, check: fileset.Check{Was: was}, size: m.Size}
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
	p.arena.pieces--
	s.unmapUnused(p.arena)
}

func (s *session) unmapUnused(a *arena) {
	if a.dropped && a.pieces == 0 {
		s.unmap(a)
	}
}

// unmap gives memory back. Nobody reads in it.
func (s *session) unmap(a *arena) {
	delete(s.mapped, a)
	if a.file != nil {
		a.file.Close()
		return
	}
	_ = unix.Munmap(a.mem) // fails only for what is not mapped
}
