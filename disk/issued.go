package disk

import (
	"bytes"
	_ "embed" // the compiled program
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

//go:embed blockio.bpf.o
var blockio []byte

// issued counts the requests that are issued to disks. Its methods may be called
// from any goroutine.
type issued struct {
	disks  *ebpf.Map
	missed *ebpf.Variable
	close  func() error
}

// issuedCounts is struct counts of the program.
type issuedCounts struct {
	End                     uint64
	Reads, ReadBytes, Seeks int64
	Writes, WrittenBytes    int64
}

// countIssued loads the program and attaches it. The error is a
// *linux.MissingError where this machine or user cannot do it.
func countIssued() (*issued, error) {
	i, err := tryCountIssued()
	if err == nil {
		return i, nil
	}
	e := &linux.MissingError{Feature: "counting requests to disks by BPF", Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Need = "CAP_BPF and CAP_PERFMON, which root has outside of most containers"
		e.Err = unix.EPERM // the library's text blames the limit of locked memory
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		e.Need = "a kernel with CONFIG_DEBUG_INFO_BTF and the tracepoints of the block layer"
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS):
		e.Need = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS"
	default:
		return nil, fmt.Errorf("count requests to disks by BPF: %w", err)
	}
	return nil, e
}

func tryCountIssued() (*issued, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(blockio))
	if err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs["request_issued"]})
	if err != nil {
		coll.Close()
		return nil, err
	}
	return &issued{
		disks: coll.Maps["disks"], missed: coll.Variables["missed"],
		close: func() error {
			err := l.Close()
			coll.Close()
			return err
		},
	}, nil
}

// read returns what was issued to each disk since the program was attached. Disks
// to which nothing was issued are left out; so are those for which there was no
// room, if not complete.
func (i *issued) read() (all map[ID]Sample, complete bool, err error) {
	var missed uint64
	if err := i.missed.Get(&missed); err != nil {
		return nil, false, err
	}
	all = map[ID]Sample{}
	var key uint64
	var c issuedCounts
	entries := i.disks.Iterate()
	for entries.Next(&key, &c) {
		all[ID(unix.Mkdev(uint32(key>>32), uint32(key)))] = Sample{ReadBytes: c.ReadBytes, WrittenBytes: c.WrittenBytes,
			Reads: c.Reads, Writes: c.Writes, Seeks: c.Seeks}
	}
	return all, missed == 0, entries.Err()
}
