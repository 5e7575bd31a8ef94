package pagecache

import (
	"bytes"
	_ "embed" // the compiled program
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:embed pagewatch.bpf.o
var pagewatch []byte

// counterBlocks is how many counters there are: 2 MiB of memory in the kernel, and as
// much for what is read, for 4 TiB of watched files or 131,072 small ones. What goes beyond is polled.
const counterBlocks = 1 << 18

// counters are those of pages that enter and leave the page cache.
type counters struct {
	// cells are the counters: pages added in the lower half, pages removed in the
	// upper one, each modulo 2^32. The kernel adds to them at any time.
	cells []uint64
	// reads has the parts of blocks that others have read, and nil where that is not to be
	// known. The kernel sets bits in it at any time, once seeReads was called.
	reads    []uint64
	seeReads func() error
	// follow has the kernel count a file in a span from now on; with a count of 0
	// it counts it no more.
	follow func(fd int, s span) error
	close  func() error

	mu    sync.Mutex
	spans *spans
}

func (k *counters) load(i uint32) cell { return cell(atomic.LoadUint64(&k.cells[i])) }

func (k *counters) take(count int, now time.Time) (span, bool) {
	if count > len(k.cells) {
		return span{}, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.spans.take(uint32(count), now)
	for i := s.First; k.reads != nil && i < s.First+s.Count; i++ {
		atomic.StoreUint64(&k.reads[i], 0) // of the file that had it before
	}
	return s, ok
}

func (k *counters) retire(s span, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans.retire(s, now)
}

// A cell is the value of a counter.
type cell uint64

// pages returns how many pages more are in memory than when the counter was at before.
func (c cell) pages(before cell) int64 { return int64(int32(c.net() - before.net())) }

func (c cell) net() uint32 { return uint32(c) - uint32(c>>32) }

// loadCounters loads the program and attaches it. The error is a
// *CapabilityError where this machine or user cannot do it.
func loadCounters(files, blocks int) (*counters, error) {
	k, err := tryCounters(files, blocks)
	if err == nil {
		return k, nil
	}
	e := &CapabilityError{Feature: "counting the events of the page cache", Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Err = unix.EPERM // what the library adds is a guess about old kernels
		e.Need = "CAP_BPF and CAP_PERFMON, which root has outside of most containers"
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		e.Need = "a kernel with CONFIG_DEBUG_INFO_BTF and the tracepoints of filemap"
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS):
		e.Need = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS"
	default:
		return nil, fmt.Errorf("count the events of the page cache: %w", err)
	}
	return nil, e
}

func tryCounters(files, blocks int) (*counters, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(pagewatch))
	if err != nil {
		return nil, err
	}
	spec.Maps["watched"].MaxEntries = uint32(max(files, 1))
	spec.Maps["counters"].MaxEntries = uint32(blocks)
	spec.Maps["reads"].MaxEntries = uint32(blocks)
	const pagesRead = "pages_read"
	if !SeesReads() {
		delete(spec.Programs, pagesRead)
	}
	shift := uint32(bits.TrailingZeros64(uint64(BlockSize / pageSize)))
	if err := spec.Variables["block_shift"].Set(shift); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // of closers; nil: it is closed
	closers := []func() error{func() error { coll.Close(); return nil }}
	closeAll := func() error {
		mu.Lock()
		defer mu.Unlock()
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		closers = nil
		return errors.Join(errs...)
	}
	attach := func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		if closers == nil {
			return ErrClosed
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
		if err == nil {
			closers = append(closers, l.Close)
		}
		return err
	}
	for _, name := range []string{"page_added", "page_removed"} {
		if err := attach(name); err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	// The kernel's memory, not a file: it cannot shrink and reading it cannot fault.
	mapped := func(name string, prot int) ([]uint64, error) {
		mem, err := unix.Mmap(coll.Maps[name].FD(), 0, blocks*8, prot, unix.MAP_SHARED)
		if err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		closers = append(closers, func() error { return unix.Munmap(mem) })
		return unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), blocks), nil
	}
	k := &counters{follow: follower(coll.Programs["follow"]), close: closeAll, spans: newSpans(uint32(blocks))}
	if k.cells, err = mapped("counters", unix.PROT_READ); err == nil && coll.Programs[pagesRead] != nil {
		k.reads, err = mapped("reads", unix.PROT_READ|unix.PROT_WRITE)
		k.seeReads = func() error { return attach(pagesRead) }
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return k, nil
}

// traced reports whether the kernel has a tracepoint.
func traced(name string) bool {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return false // what needs it says so
	}
	var t *btf.Typedef
	return kernel.TypeByName("btf_trace_"+name, &t) == nil
}

// follower calls the program that finds the mapping of a descriptor.
func follower(program *ebpf.Program) func(int, span) error {
	return func(fd int, s span) error {
		request := struct {
			FD uint32
			S  span
		}{uint32(fd), s}
		errno, err := program.Run(&ebpf.RunOptions{Context: request})
		if err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		if errno != 0 {
			return os.NewSyscallError("follow", unix.Errno(errno))
		}
		return nil
	}
}
