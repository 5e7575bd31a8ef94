package names

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"syscall"

	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
)

// memory is a store in memory, of which a process's death leaves what was done wholly.
type memory struct {
	state *writes
	held  seat
	kept  []byte
	die   func(where string)
	ill   error // what was found of the state
	logs  int   // of replicas that were set aside
	aside *memory
}

func (s *memory) read() (meta.Reader, func(), error) {
	return layers{[]*writes{s.state.Copy()}, nobody{}}, func() {}, nil
}

// nobody is an empty state.
type nobody struct{}

func (nobody) Get([]byte) []byte { return nil }
func (nobody) Scan(_, _ []byte) iter.Seq2[[]byte, []byte] {
	return func(func(_, _ []byte) bool) {}
}

func (s *memory) change(what string, f func()) error {
	s.die("before " + what)
	f()
	s.die("after " + what)
	return nil
}

func (s *memory) write(w *writes) error {
	next := s.state.Copy()
	w.Scan(func(k string, v []byte) bool {
		if v == nil {
			next.Delete(k)
		} else {
			next.Set(k, v)
		}
		return true
	})
	return s.change("flush", func() { s.state = next })
}

func (s *memory) replace(fill func(put func(k, v []byte) error) error) error {
	next := &writes{}
	if err := fill(func(k, v []byte) error { next.Set(string(k), v); return nil }); err != nil {
		return err
	}
	return s.change("replace", func() { s.state = next })
}

func (s *memory) seat() (seat, error) { return s.held, nil }
func (s *memory) setSeat(v seat) error {
	return s.change("seat", func() { s.held = v })
}
func (s *memory) keepView(v *View) error {
	return s.change("view", func() { s.kept = v.Encode() })
}
func (s *memory) keptView() (*View, error) {
	if s.kept == nil {
		return nil, nil
	}
	return DecodeView(s.kept)
}

// died is the panic by which a process ends in the middle of anything.
type died struct{}

// process is a node with its disks.
type process struct {
	w    *world
	name string
	// knows is the version that its program understands; astray: it may meet a newer one, since it was taken back to an older program, or was not there when that
	// was raised.
	knows  uint32
	astray bool
	mem    *vfs.Mem
	store  *memory // nil before it has joined

	node    *quorum.Node // nil while it is dead
	machine *machine
	seats   *seats
	known   *known
	alone   bool
	frozen  bool // what was frozen is not on the disk yet
	life    int
	left    int    // things done to its disks until it dies
	point   string // or where
	back    int    // when it starts again
	stalled int    // until when its disk hangs, and with it all but questions
	fails   int    // writes of the log until one fails

	comparing comparison
	reseats   []func() // that have waited for what was agreed on before
}

func (p *process) die(where string) {
	p.w.note("%s dies %s", p.name, where)
	p.w.counts["died"]++
	p.mem.Kill()
	panic(died{})
}

// mayDie is called wherever something becomes durable.
func (p *process) mayDie(where string) {
	p.left--
	if p.left == 0 || p.point == where {
		p.w.counts["died "+where]++
		p.die(where)
	}
}

// points are where few come by.
var points = []string{"names.seat.taken", "names.seat.leaving", "names.seat.dropped", "after seat", "before replace", "after replace"}

// waiting is a machine that receives a state when what is being written is on the disk, as the real one waits for its other
// goroutine.
type waiting struct {
	*machine
	p *process
}

func (m waiting) Restore(index uint64, r io.Reader) error {
	if m.p.frozen {
		m.p.frozen = false
		if err := m.commit(); err != nil {
			return err
		}
	}
	return m.machine.Restore(index, r)
}

func (p *process) logDir() string { return fmt.Sprint("/q", p.store.logs) }

func (p *process) open() {
	w := p.w
	if p.store.ill != nil {
		p.heal()
	}
	m, err := newMachine(p.store, p.knows, slog.New(slog.DiscardHandler))
	p.check(err)
	m.fault, m.every, m.marked = w.fault, 8, func(k mark) { w.marked(p, k) }
	m.applied = func(index uint64, data, answer []byte) { w.applied(p, index, entry{string(data), string(answer)}) }
	v := m.agreed()
	if v == nil {
		if v, err = p.store.keptView(); v == nil {
			w.failf("%s knows nothing of the ring: %v", p.name, err)
		}
		p.check(v.Old(p.knows))
	}
	p.alone, p.comparing, p.reseats = false, comparison{}, nil
	p.machine, p.known = m, newKnown(p.name, v)
	m.changed = p.known.Learn
	p.seats = &seats{self: p.name, machine: m, alone: func(is bool) { p.alone = is }, point: p.mayDie, lostOnes: p.comparing.lostOnes}
	fs := &vfs.Faulty{FS: p.mem, Fail: func(o vfs.Op) error {
		p.mayDie("in the log")
		if p.fails > 0 && (o.Kind == "sync" || o.Kind == "write") {
			if p.fails--; p.fails == 0 {
				w.counts["disk error"]++
				return syscall.EIO
			}
		}
		return nil
	}}
	node, err := quorum.Open(quorum.Config{Dir: p.logDir(), FS: fs, Send: p.send, SegmentSize: int64(max(4000, 100*w.keep)), KeepEntries: cmp.Or(w.keep, 6), ChunkSize: 2000, Workers: 1,
		Machine: func(uint64) (quorum.Machine, error) { return waiting{m, p}, nil },
		Leader:  func(_, term uint64, leader quorum.Replica) { p.leader(term, leader) }})
	p.check(err)
	p.check(p.seats.open(node))
	p.node = node
}

// check has the process die of a disk error, and the world of any other.
func (p *process) check(err error) {
	if errors.Is(err, syscall.EIO) {
		p.die("of a disk error")
	}
	if errors.Is(err, errNewer) || errors.Is(err, ErrOld) {
		p.w.refused(p, err.Error())
		p.die("to be updated")
	}
	if errors.Is(err, ErrDamaged) && p.w.plants {
		p.falls(err)
	}
	if err != nil {
		p.w.failf("%s: %v", p.name, err)
	}
}

// falls has the process end because of what was found of its state, for the next start to know.
func (p *process) falls(err error) {
	p.w.counts["fell"]++
	p.store.ill = err
	p.die(err.Error())
}

func (p *process) leader(term uint64, leader quorum.Replica) {
	p.known.leader(term, leader)
	if leader == 0 {
		return
	}
	p.w.note("%s: in term %d %x leads", p.name, term, uint64(leader))
	if l := p.w.leaders[term]; l != 0 && l != leader {
		p.w.failf("term %d has two leaders", term)
	}
	p.w.leaders[term] = leader
}

// whole is all of a process's state, as text.
func whole(p *process) string {
	r, _, done, err := p.machine.read()
	if err != nil {
		p.w.failf("%s: %v", p.name, err)
	}
	defer done()
	return text(r)
}

// text is a state but where it ends, for a snapshot's end is moved by empty entries, too.
func text(r meta.Reader) (all string) {
	for k, v := range r.Scan(nil, end) {
		if counted(k) {
			all += fmt.Sprintf("%q %q\n", k, v)
		}
	}
	return all
}
