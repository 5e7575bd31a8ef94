package stream

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"headrace/fileset"
	"headrace/stream/protocol"
)

const (
	// maxBlock is the block of large files. It is a multiple of the largest folio.
	maxBlock = 2 << 20
	// minBlock is that of the smallest files that are cut at all.
	minBlock = 64 << 10
	// smallFile and smaller ones are dealt in batches.
	smallFile = 256 << 10
	// A batch has at most batchBytes and batchFiles.
	batchBytes = 1 << 20
	batchFiles = 1 << 10
	// maxUnits bounds the units of a stream.
	maxUnits = 1 << 28
)

// file is one input file of a plan.
type file struct {
	path string
	fileset.Identity
	// block is the size of its blocks; 0 for a file that is dealt whole or in a
	// batch.
	block int
	codec protocol.Codec
	// first is its first unit, units how many it has. The files of a batch share
	// one.
	first, units uint32
	// resident is how much was in memory when it was last looked at.
	resident int64
}

// plan is what a stream will deal.
type plan struct {
	rule  Rule
	files []file
	// starts has the first unit of each file, in order, for looking a unit up.
	starts []uint32
	units  uint32
	bytes  int64
}

// maker makes a plan.
type maker struct {
	p *plan
	// batchBytes and batchFiles are in the batch that is being filled.
	batchBytes int64
	batchFiles int
}

func newMaker(rule Rule) *maker { return &maker{p: &plan{rule: rule}} }

// add adds a file. Empty files have no units, except where files are dealt by
// name.
func (m *maker) add(path string, id fileset.Identity, codec protocol.Codec) error {
	p := m.p
	entry := file{path: path, Identity: id, first: p.units, codec: codec}
	switch {
	case p.rule.Split == Files, entry.codec != protocol.Plain:
		entry.units = 1
		m.batchFiles = 0
	case id.Size == 0:
		if m.batchFiles > 0 {
			entry.first-- // keeps starts in order while a batch is open
		}
	case id.Size <= smallFile:
		m.addSmall(&entry)
	default:
		entry.block = blockSize(id.Size)
		n := (id.Size + int64(entry.block) - 1) / int64(entry.block)
		if n > maxUnits {
			return fmt.Errorf("%s: %d bytes are more than a stream can deal", path, id.Size)
		}
		entry.units = uint32(n)
		m.batchFiles = 0
	}
	if p.units += m.newUnits(&entry); p.units > maxUnits {
		return fmt.Errorf("these files have more than %d units; open several streams", maxUnits)
	}
	p.bytes += id.Size
	p.files = append(p.files, entry)
	p.starts = append(p.starts, entry.first)
	return nil
}

// last is the file that was added last.
func (m *maker) last() *file { return &m.p.files[len(m.p.files)-1] }

// newUnits is how many units the file adds: none if it went into the last batch.
func (m *maker) newUnits(f *file) uint32 {
	if f.first < m.p.units {
		return 0
	}
	return f.units
}

// addSmall puts the file into the present batch or begins one.
func (m *maker) addSmall(f *file) {
	f.units = 1
	if m.batchFiles > 0 && m.batchFiles < batchFiles && m.batchBytes+f.Size <= batchBytes {
		f.first = m.p.units - 1
		m.batchFiles++
		m.batchBytes += f.Size
		return
	}
	m.batchFiles, m.batchBytes = 1, f.Size
}

// blockSize is the block for a file of some size: a 64th of it within bounds, so
// that the consumers of a small file all get some. It depends on nothing else,
// so that streams can share a scan.
func blockSize(size int64) int {
	b := minBlock
	for b < maxBlock && int64(b)*64 < size {
		b *= 2
	}
	return b
}

// sniff tells by name and first bytes whether a file is compressed: a file that
// is neither or only one of them is taken as it is.
func (r Rule) sniff(path string, f *os.File) (protocol.Codec, error) {
	if r.Split == Files {
		return protocol.Plain, nil
	}
	var magic string
	codec := protocol.Plain
	switch {
	case strings.HasSuffix(path, ".gz"), strings.HasSuffix(path, ".tgz"):
		codec, magic = protocol.Gzip, "\x1f\x8b"
	case strings.HasSuffix(path, ".zst"), strings.HasSuffix(path, ".zstd"):
		codec, magic = protocol.Zstd, "\x28\xb5\x2f\xfd"
	default:
		return codec, nil
	}
	head := make([]byte, len(magic))
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return codec, fmt.Errorf("%s: %w", path, err)
	}
	if string(head) != magic {
		return protocol.Plain, nil
	}
	return codec, nil
}

// fileOf is the index of the file that a unit begins with.
func (p *plan) fileOf(unit uint32) int {
	i, found := slices.BinarySearch(p.starts, unit)
	if !found {
		i-- // inside a file of blocks
	}
	// Files without units, and later files of a batch, start where others do: the
	// first of those that have the unit is meant.
	for i < len(p.files) && p.files[i].units == 0 {
		i++
	}
	return i
}

// batch is the files of a batch: the indices [from, to) without empty ones.
func (p *plan) batch(unit uint32) (from, to int) {
	from = p.fileOf(unit)
	for to = from; to < len(p.files) && p.files[to].first <= unit; to++ {
	}
	return from, to
}

// unitBytes is how many bytes of files a unit stands for: those of its block,
// wherever its records end. Over all units it is the size of the files.
func (p *plan) unitBytes(unit uint32) int64 {
	i := p.fileOf(unit)
	f := &p.files[i]
	if f.block > 0 {
		off := int64(unit-f.first) * int64(f.block)
		return min(int64(f.block), f.Size-off)
	}
	if f.codec != protocol.Plain || p.rule.Split == Files {
		return f.Size
	}
	total := int64(0)
	from, to := p.batch(unit)
	for i := from; i < to; i++ {
		total += p.files[i].Size
	}
	return total
}

func (p *plan) totalBytes(units []uint32) int64 {
	total := int64(0)
	for _, id := range units {
		total += p.unitBytes(id)
	}
	return total
}

// openInput opens a regular file and tells which one it is.
func openInput(path string) (*os.File, fileset.Identity, error) {
	f, err := fileset.Open(path)
	if err != nil {
		return nil, fileset.Identity{}, err
	}
	id, err := fileset.Identify(f)
	if err != nil {
		f.Close()
		return nil, fileset.Identity{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, id, nil
}
