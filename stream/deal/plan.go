package deal

import (
	"fmt"
	"slices"

	"headrace/fileset"
	"headrace/stream/protocol"
)

const (
	// MaxBlock is the block of large files. It is a multiple of the largest folio.
	MaxBlock = 2 << 20
	// MinBlock is that of the smallest files that are cut at all.
	MinBlock = 64 << 10
	// smallFile and smaller ones are dealt in batches.
	smallFile = 256 << 10
	// A batch has at most batchBytes and batchFiles.
	batchBytes = 1 << 20
	batchFiles = 1 << 10
	// MaxUnits bounds the units of a stream.
	MaxUnits = protocol.MaxUnits
)

// File is one input file of a plan.
type File struct {
	Path string
	fileset.Identity
	// Block is the size of its blocks; 0 for a file that is dealt whole or in a
	// batch.
	Block int
	Codec protocol.Codec
	// First is its first unit, Units how many it has. The files of a batch share
	// one.
	First, Units uint32
	// End tells with Identity whether the file is what it was (fileset.Was), and
	// Resident is how much was in memory when the plan was made. Whoever makes the plan
	// sets them, and whoever reads the file End, if it was not known.
	End      uint64
	Resident int64
}

// Plan says which units a stream has. It is a function of the rule and the files,
// in their order.
type Plan struct {
	Rule  Rule
	Files []File
	// Boot is the boot of the machine in which the files were found, empty for this one.
	// Another one may give their devices other numbers.
	Boot string
	// Units counts them, Bytes is the size of all files.
	Units uint32
	Bytes int64
	// starts has the first unit of each file, in order, for looking a unit up.
	starts []uint32
	// batchBytes and batchFiles are in the batch that is being filled.
	batchBytes int64
	batchFiles int
}

// Add adds a file. Empty files have no units, except where files are dealt by
// name.
func (p *Plan) Add(path string, id fileset.Identity, codec protocol.Codec) error {
	entry := File{Path: path, Identity: id, First: p.Units, Codec: codec}
	if p.Rule.Split != Files && id.Size > MaxUnits*MaxBlock { // one with holes may have any size
		return fmt.Errorf("%s: %d bytes are more than a stream can deal", path, id.Size)
	}
	switch {
	case p.Rule.Split == Files, entry.Codec != protocol.Plain:
		entry.Units = 1
		p.batchFiles = 0
	case id.Size == 0:
		if p.batchFiles > 0 {
			entry.First-- // keeps starts in order while a batch is open
		}
	case id.Size <= smallFile:
		p.addSmall(&entry)
	default:
		entry.Block = blockSize(id.Size)
		entry.Units = uint32((id.Size + int64(entry.Block) - 1) / int64(entry.Block))
		p.batchFiles = 0
	}
	if p.Units += p.newUnits(&entry); p.Units > MaxUnits {
		return fmt.Errorf("these files have more than %d units; open several streams", MaxUnits)
	}
	p.Bytes = fileset.AddSizes(p.Bytes, id.Size)
	p.Files = append(p.Files, entry)
	p.starts = append(p.starts, entry.First)
	return nil
}

// newUnits returns how many units the file adds: none if it went into the last batch.
func (p *Plan) newUnits(f *File) uint32 {
	if f.First < p.Units {
		return 0
	}
	return f.Units
}

// addSmall puts the file into the present batch or begins one.
func (p *Plan) addSmall(f *File) {
	f.Units = 1
	if p.batchFiles > 0 && p.batchFiles < batchFiles && p.batchBytes+f.Size <= batchBytes {
		f.First = p.Units - 1
		p.batchFiles++
		p.batchBytes += f.Size
		return
	}
	p.batchFiles, p.batchBytes = 1, f.Size
}

// blockSize returns the block for a file of some size: a 64th of it within bounds, so
// that the consumers of a small file all get some. It depends on nothing else,
// so that streams can share a scan.
func blockSize(size int64) int {
	b := MinBlock
	for b < MaxBlock && int64(b)*64 < size {
		b *= 2
	}
	return b
}

// FileOf returns the index of the file that a unit begins with.
func (p *Plan) FileOf(unit uint32) int {
	i, found := slices.BinarySearch(p.starts, unit)
	if !found {
		i-- // inside a file of blocks
	}
	// Files without units, and later files of a batch, start where others do: the
	// first of those that have the unit is meant.
	for i < len(p.Files) && p.Files[i].Units == 0 {
		i++
	}
	return i
}

// fileNear is FileOf for a unit that is most likely of file i, as the one before it.
func (p *Plan) fileNear(i int, unit uint32) int {
	if f := &p.Files[i]; f.Block > 0 && unit >= f.First && unit-f.First < f.Units {
		return i
	}
	return p.FileOf(unit)
}

// Batch returns the files of a batch: the indices [from, to) without empty ones.
func (p *Plan) Batch(unit uint32) (from, to int) {
	from = p.FileOf(unit)
	for to = from; to < len(p.Files) && p.Files[to].First <= unit; to++ {
	}
	return from, to
}

// UnitBytes returns how many bytes of files a unit stands for: those of its block,
// wherever its records end. Over all units it is the size of the files.
func (p *Plan) UnitBytes(unit uint32) int64 { return p.unitBytes(unit, p.FileOf(unit)) }

// unitBytes is UnitBytes for a unit that begins with file i.
func (p *Plan) unitBytes(unit uint32, i int) int64 {
	f := &p.Files[i]
	if f.Block > 0 {
		off := int64(unit-f.First) * int64(f.Block)
		return min(int64(f.Block), f.Size-off)
	}
	if p.whole(f) {
		return f.Size
	}
	total := int64(0)
	from, to := p.Batch(unit)
	for i := from; i < to; i++ {
		total += p.Files[i].Size
	}
	return total
}

// TotalBytes returns how many bytes of files units stand for.
func (p *Plan) TotalBytes(units []uint32) int64 {
	total, i := int64(0), 0
	for _, id := range units {
		i = p.fileNear(i, id)
		total += p.unitBytes(id, i)
	}
	return total
}

// Measure returns how many bytes of files the units of a list stand for. Each may be on
// it once. What a consumer sends can be long: no lock should be held meanwhile.
func (p *Plan) Measure(units []uint32) (bytes int64, err error) {
	if uint64(len(units)) > uint64(p.Units) {
		return 0, fmt.Errorf("a list of %d units; there are %d", len(units), p.Units)
	}
	sorted := slices.Sorted(slices.Values(units))
	for i, id := range sorted {
		switch {
		case id >= p.Units:
			return 0, fmt.Errorf("there is no unit %d", id)
		case i > 0 && sorted[i-1] == id:
			return 0, fmt.Errorf("unit %d is on the list twice", id)
		}
	}
	return p.TotalBytes(sorted), nil
}
