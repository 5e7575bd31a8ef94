package inspect

import (
	"bufio"
	"bytes"
	_ "embed" // the compiled program
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// CRIU gives a process its contexts of asynchronous I/O (io_setup) back, with what is answered and unread, but neither
// waits for requests that are in flight nor starts them anew: a program would wait for ever for the answer. Only the
// kernel knows whether there are any.

//go:embed aio.bpf.o
var aio []byte

// aioPatience is how long disks have to answer while the task stands still, in all attempts of a checkpoint. What a
// descriptor has to be ready for may take any time.
const aioPatience = time.Second

// Prepare does what may be done while the processes still run, so that they stand still for less time. What fails fails
// in Find again.
func (s *Search) Prepare(tree []linux.Stat) {
	if users, _, err := aioUsers(tree); err == nil && len(users) > 0 {
		s.load()
	}
}

// load has the program of BPF loaded once.
func (s *Search) load() (err error) {
	if s.contexts == nil {
		s.contexts, err = newAIOContexts()
	}
	return err
}

// Close ends the search.
func (s *Search) Close() {
	if s.contexts != nil {
		s.contexts.Close()
	}
}

// requestsInFlight: the tree is stopped, so that no request is begun meanwhile.
func (s *Search) requestsInFlight(tree []linux.Stat) (*Loss, error) {
	users, all, err := aioUsers(tree)
	if len(users) == 0 || err != nil {
		return nil, err
	}
	if l := all.mixed(users); l != nil {
		return l, nil
	}
	err = s.load()
	if missing := (*linux.MissingError)(nil); errors.As(err, &missing) {
		return &Loss{PID: users[0].PID, Comm: users[0].Comm, Has: fmt.Sprintf(
			"asynchronous I/O (io_setup), and this machine does not tell whether requests are in flight, which a checkpoint would lose: %v", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	if s.end.IsZero() {
		s.end = time.Now().Add(aioPatience)
	}
	for ; ; time.Sleep(5 * time.Millisecond) {
		all, err := s.contexts.inFlight()
		if err != nil {
			return nil, err
		}
		l, waits := busy(users, all)
		if l == nil || waits || time.Now().After(s.end) {
			return l, nil
		}
	}
}

// busy returns that one of the processes has requests in flight, and whether one may be so for any time.
func busy(users []linux.Stat, all map[int]inFlight) (l *Loss, waits bool) {
	for _, p := range users {
		n, ok := all[p.PID]
		switch {
		case !ok: // it has ended, or the kernel does not tell of it
			return &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: "asynchronous I/O (io_setup), and the kernel does not tell whether requests are in flight"}, false
		case n.requests != 0:
			waits = waits || n.waits
			l = &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: fmt.Sprintf(
				"%d requests of asynchronous I/O (io_submit) in flight, which a checkpoint would lose; try again when they have ended", n.requests)}
		}
	}
	return l, waits
}

// aioUsers returns the processes that have rings of contexts, with these. With most kernels a child has that of its parent
// after a fork, and no context.
func aioUsers(tree []linux.Stat) (users []linux.Stat, all rings, err error) {
	all = make(rings)
	for _, p := range tree {
		of, err := ringsOf(p.PID)
		if err != nil && !linux.Gone(err) {
			return nil, nil, err
		}
		if len(of) > 0 {
			users = append(users, p)
			all[p.PID] = of
		}
	}
	return users, all, nil
}

// rings are by process and address the inodes of the memory that contexts of asynchronous I/O share with it.
type rings map[int]map[uint64]uint64

func ringsOf(pid int) (map[uint64]uint64, error) {
	of := make(map[uint64]uint64)
	for m, err := range procs.Maps(pid) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(m.Path, "/[aio]") {
			of[m.Start] = m.Inode
		}
	}
	return of, nil
}

// Copies returns by process the addresses of rings whose contexts are not the process's: it has them by a fork. A dump needs them: CRIU makes a
// context for each ring.
func (s *Search) Copies(tree []linux.Stat) (map[int][]uint64, error) {
	users, all, err := aioUsers(tree)
	if len(users) == 0 || err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	contexts, err := s.contexts.inFlight()
	if err != nil {
		return nil, err
	}
	for _, p := range users {
		if _, ok := contexts[p.PID]; !ok {
			return nil, fmt.Errorf("process %d (%s): the kernel does not tell of its asynchronous I/O", p.PID, p.Comm)
		}
	}
	return all.copies(users, contexts), nil
}

// copies is Copies. One that has contexts of its own beside those of its parent has the parent's in the same memory.
func (r rings) copies(users []linux.Stat, contexts map[int]inFlight) map[int][]uint64 {
	copies := make(map[int][]uint64)
	for _, p := range users {
		for at, inode := range r[p.PID] {
			if of, ok := r[p.PPID][at]; contexts[p.PID].contexts == 0 || ok && of == inode {
				copies[p.PID] = append(copies[p.PID], at)
			}
		}
	}
	return copies
}

// mixed returns a process whose ring is where its parent has another: CRIU restores both in the same memory, and the parent
// would get old answers again, or none. The ring of a fork is the same.
func (r rings) mixed(users []linux.Stat) *Loss {
	for _, p := range users {
		for at, inode := range r[p.PID] {
			if of, ok := r[p.PPID][at]; ok && of != inode {
				return &Loss{PID: p.PID, Comm: p.Comm, Passing: true,
					Has: "asynchronous I/O (io_setup) in memory at the address where its parent has its own, which a restore would mix up; try again when one of the two has ended"}
			}
		}
	}
	return nil
}

// aioContexts asks the kernel for the contexts of all processes.
type aioContexts struct {
	program *ebpf.Collection
	link    *link.Iter
}

// CanTellRequests returns nil where the kernel tells which requests of asynchronous I/O are in flight. The error is a
// *linux.MissingError where it never does.
func CanTellRequests() error {
	c, err := newAIOContexts()
	if err == nil {
		c.Close()
	}
	return err
}

// newAIOContexts returns a *linux.MissingError for what stays as it is: a lack of rights or of support, and that the
// verifier refuses.
func newAIOContexts() (*aioContexts, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(aio))
	if err != nil {
		return nil, err
	}
	// Its own types, so that those of all modules are not read. The library calls the iterator not supported also when it
	// cannot look for it at the moment: hence the look here.
	kernel, err := btf.LoadKernelSpec()
	if err == nil {
		var iterator *btf.Func
		err = kernel.TypeByName("bpf_iter_task", &iterator)
	}
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, btf.ErrNotFound) {
		return nil, cannotTell("a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_SYSCALL", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the types of the kernel: %w", err)
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: kernel}})
	if err != nil {
		return nil, refusal(err)
	}
	l, err := link.AttachIter(link.IterOptions{Program: c.Programs["contexts"]})
	if err != nil {
		c.Close()
		return nil, refusal(err)
	}
	return &aioContexts{c, l}, nil
}

// refusal says of an error of loading the program whether it stays.
func refusal(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case linux.Passing(err): // of any kind, as the library wraps it
	case errors.Is(err, unix.EPERM):
		return cannotTell("CAP_BPF and CAP_PERFMON", unix.EPERM) // the library's text blames the limit of locked memory
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS), errors.As(err, &verifier):
		return cannotTell("Linux 5.19 or newer that allows BPF", err)
	}
	return fmt.Errorf("load a program of BPF: %w", err)
}

func cannotTell(need string, err error) error {
	return &linux.MissingError{Feature: "a count of requests in flight", Need: need, Err: err}
}

func (a *aioContexts) Close() {
	a.link.Close()
	a.program.Close()
}

// inFlight is what the contexts of a process have in flight, and how many there are; waits: some wait for a descriptor, which may take any time.
type inFlight struct {
	contexts int
	requests int64
	waits    bool
}

// inFlight returns it of each process, also of one without contexts.
func (a *aioContexts) inFlight() (map[int]inFlight, error) {
	r, err := a.link.Open()
	if err != nil {
		return nil, fmt.Errorf("ask for contexts of asynchronous I/O: %w", err)
	}
	defer r.Close()
	records := bufio.NewReader(r)
	all := make(map[int]inFlight)
	for {
		var c struct { // struct context of the program
			PID, Waits uint32
			InFlight   int64
		}
		err := binary.Read(records, binary.NativeEndian, &c)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ask for contexts of asynchronous I/O: %w", err)
		}
		n, ok := all[int(c.PID)]
		if ok { // the first is of the process
			n.contexts++
		}
		all[int(c.PID)] = inFlight{n.contexts, n.requests + c.InFlight, n.waits || c.Waits != 0}
	}
}
