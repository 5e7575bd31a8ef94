package inspect

import (
	"bytes"
	_ "embed" // the compiled program
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"headrace/internal/linux"
)

// CRIU gives a process its contexts of asynchronous I/O (io_setup) back, with what is answered and unread, but neither
// waits for requests that are in flight nor starts them anew: a program would wait for ever for the answer. Only the
// kernel knows whether there are any.

//go:embed aio.bpf.o
var aio []byte

// aioPatience is how long disks have to answer a stopped task. What a descriptor has to be ready for may take any time.
const aioPatience = time.Second

// requestsInFlight: the tree is stopped, so that no request is begun meanwhile.
func requestsInFlight(tree []linux.Stat) (*Loss, error) {
	var users []linux.Stat
	for _, p := range tree {
		uses, err := usesAIO(p.PID)
		if err != nil && !linux.Gone(err) {
			return nil, err
		}
		if uses {
			users = append(users, p)
		}
	}
	if len(users) == 0 {
		return nil, nil
	}
	contexts, err := newAIOContexts()
	if err != nil {
		return &Loss{PID: users[0].PID, Comm: users[0].Comm, Has: fmt.Sprintf(
			"asynchronous I/O (io_setup), and this machine does not tell whether requests are in flight, which a checkpoint would lose: %v", err)}, nil
	}
	defer contexts.Close()
	for end := time.Now().Add(aioPatience); ; time.Sleep(5 * time.Millisecond) {
		all, err := contexts.inFlight()
		if err != nil {
			return nil, err
		}
		l, waits := busy(users, all)
		if l == nil || waits || time.Now().After(end) {
			return l, nil
		}
	}
}

// busy returns that one of the processes has requests in flight, and whether one may be so for any time.
func busy(users []linux.Stat, all map[int]inFlight) (l *Loss, waits bool) {
	for _, p := range users {
		n, ok := all[p.PID]
		switch {
		case !ok: // it has ended, or has destroyed its context, or the kernel does not tell of it
			return &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: "asynchronous I/O (io_setup), and the kernel does not tell whether requests are in flight"}, false
		case n.requests != 0:
			waits = waits || n.waits
			l = &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: fmt.Sprintf(
				"%d requests of asynchronous I/O (io_submit) in flight, which a checkpoint would lose; try again when they have ended", n.requests)}
		}
	}
	return l, waits
}

// usesAIO reports whether a process has a context of asynchronous I/O.
func usesAIO(pid int) (bool, error) {
	for m, err := range procs.Maps(pid) {
		if err != nil {
			return false, err
		}
		if strings.HasPrefix(m.Path, "/[aio]") {
			return true, nil
		}
	}
	return false, nil
}

// aioContexts asks the kernel for the contexts of all processes.
type aioContexts struct {
	program *ebpf.Collection
	link    *link.Iter
}

func newAIOContexts() (*aioContexts, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(aio))
	if err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollection(spec)
	if errors.Is(err, fs.ErrPermission) {
		return nil, errors.New("that takes CAP_BPF and CAP_PERFMON") // the library's text blames the limit of locked memory
	}
	if err != nil {
		return nil, fmt.Errorf("load a program of BPF: %w", err)
	}
	l, err := link.AttachIter(link.IterOptions{Program: c.Programs["contexts"]})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("attach a program of BPF: %w", err)
	}
	return &aioContexts{c, l}, nil
}

func (a *aioContexts) Close() {
	a.link.Close()
	a.program.Close()
}

// inFlight is what the contexts of a process have in flight; waits: some wait for a descriptor, which may take any time.
type inFlight struct {
	requests int64
	waits    bool
}

// inFlight returns it of each process that has contexts.
func (a *aioContexts) inFlight() (map[int]inFlight, error) {
	r, err := a.link.Open()
	if err != nil {
		return nil, fmt.Errorf("ask for contexts of asynchronous I/O: %w", err)
	}
	defer r.Close()
	all := make(map[int]inFlight)
	for {
		var c struct { // struct context of the program
			PID, Waits uint32
			InFlight   int64
		}
		err := binary.Read(r, binary.NativeEndian, &c)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ask for contexts of asynchronous I/O: %w", err)
		}
		n := all[int(c.PID)]
		all[int(c.PID)] = inFlight{n.requests + c.InFlight, n.waits || c.Waits != 0}
	}
}
