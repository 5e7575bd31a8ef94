package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/criu/image"
)

const (
	// writebackStep is how much is written before the kernel is asked to begin
	// writing it to the device, so that the fsync at the end is short.
	writebackStep = 8 << 20
	// bridgePages is the longest run of zero pages that does not end an extent
	// of a compressed file: frames of a few pages compress badly.
	bridgePages = 16
	// frameSize is what one goroutine compresses at a time, and compressors their
	// number.
	frameSize   = 1 << 20
	compressors = 2
)

var (
	zeroPage = make([]byte, pageSize)
	zeroHash = xxh3.Hash128(zeroPage)
)

// counts are bytes of pages: Total = Stored + Zero + Same.
type counts struct {
	Total  int64 `json:"total"`
	Stored int64 `json:"stored"` // bytes that this image holds
	Zero   int64 `json:"zero"`   // holes
	Same   int64 `json:"same"`   // unchanged since the parent
}

// A dumpWriter is the pageSink that writes an image directory.
type dumpWriter struct {
	dir  string
	need int64 // BeginOptions.Need
	// parentIndex opens the index of the parent's image of that name, nil if the
	// parent has none.
	parentIndex func(name string) (*os.File, error)
	encoder     *zstd.Encoder // nil: do not compress

	cur     *pagesWriter
	pagesID uint32

	// For whoever commits, after finish.
	counts counts
	pages  []pagesFile
}

// A pagesFile is a finished pages file and its sums.
type pagesFile struct {
	name, sums    string
	size, rawSize int64
}

func (d *dumpWriter) open(name string) error {
	if err := d.finish(); err != nil {
		return err
	}
	d.pagesID++
	p, err := newPagesWriter(d, name)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("criu opened the image %s twice", name)
	}
	d.cur = p
	return err
}

func (d *dumpWriter) store(b *block) error {
	if d.cur == nil {
		return errors.New("criu sent pages before it opened an image; CRIU 4.2 is required")
	}
	if err := d.cur.store(b); err != nil {
		return err
	}
	crash.Here("checkpoint.pages")
	return nil
}

func (d *dumpWriter) finish() error {
	if d.cur == nil {
		return nil
	}
	p := d.cur
	d.cur = nil
	err := p.close()
	d.pages = append(d.pages, pagesFile{filepath.Base(p.pages.Name()), filepath.Base(p.sumsFile.Name()), p.size(), p.off})
	return err
}

// abandon closes what an unfinished dump has open.
func (d *dumpWriter) abandon() {
	if d.cur != nil {
		d.cur.closeFiles()
		d.cur = nil
	}
}

// A pagesWriter writes one pagemap image: the pages that changed, and where the
// others are.
type pagesWriter struct {
	d     *dumpWriter
	name  string
	pages *os.File

	pagemapFile, indexFile, sumsFile *os.File

	pagemap *pagemapWriter
	index   *indexWriter
	sums    *sumsWriter

	oldFile *os.File // nil: all pages are new
	old     *indexReader

	next   uint64 // lowest address that may come
	off    int64  // where the next page goes in the pages file as CRIU sees it
	pos    int64  // where the next byte goes in the file as it is
	pushed int64  // up to here writeback has begun

	kept    []byte // the pages of a block that are stored, in front of the block's data
	extents []extent
	frames  [][]byte
}

func newPagesWriter(d *dumpWriter, name string) (*pagesWriter, error) {
	p := &pagesWriter{d: d, name: name}
	pages := fmt.Sprintf("pages-%d.img", d.pagesID)
	if d.encoder != nil {
		pages += zstdSuffix
	}
	err := p.openFiles(pages)
	if err == nil {
		p.oldFile, err = d.parentIndex(name)
	}
	if err == nil && p.oldFile != nil {
		if p.old, err = newIndexReader(p.oldFile); err != nil {
			err = fmt.Errorf("%s: %w", p.oldFile.Name(), err)
		}
	}
	if err == nil {
		p.pagemap, err = newPagemapWriter(p.pagemapFile, d.pagesID)
	}
	if err == nil {
		p.index, err = newIndexWriter(p.indexFile)
	}
	if err == nil {
		p.sums, err = newSumsWriter(p.sumsFile)
	}
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	return p, nil
}

func (p *pagesWriter) openFiles(pages string) error {
	for _, f := range []struct {
		file **os.File
		name string
	}{
		{&p.pagemapFile, p.name + ".img"},
		{&p.indexFile, p.name + indexSuffix},
		{&p.pages, pages},
		{&p.sumsFile, fmt.Sprintf("pages-%d%s", p.d.pagesID, sumsSuffix)},
	} {
		var err error
		if *f.file, err = os.OpenFile(filepath.Join(p.d.dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *pagesWriter) closeFiles() error {
	var errs []error
	for _, f := range []*os.File{p.pagemapFile, p.indexFile, p.pages, p.sumsFile, p.oldFile} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// size returns the size of the finished pages file.
func (p *pagesWriter) size() int64 {
	if p.d.encoder != nil {
		return p.pos
	}
	return p.off
}

// store sorts a block's pages into unchanged, zero and others, and writes the
// others. It moves those together at the front of the block.
func (p *pagesWriter) store(b *block) error {
	p.kept, p.extents = b.data[:0], p.extents[:0]
	rest := b.data
	for _, r := range b.runs {
		if r.vaddr < p.next {
			return fmt.Errorf("criu sent pages of %s at %#x after those below %#x", p.name, r.vaddr, p.next)
		}
		for range r.pages {
			if err := p.page(r.vaddr, r.flags, rest[:pageSize]); err != nil {
				return err
			}
			r.vaddr += pageSize
			rest = rest[pageSize:]
		}
		p.next = r.vaddr
	}
	var err error
	if p.d.encoder != nil {
		err = p.writeCompressed()
	} else {
		err = p.write()
	}
	if err == nil {
		err = p.push()
	}
	return err
}

func (p *pagesWriter) page(vaddr uint64, flags uint32, data []byte) error {
	p.d.counts.Total += pageSize
	e := indexEntry{vaddr, xxh3.Hash128(data)}
	if err := p.index.add(e); err != nil {
		return err
	}
	if p.old != nil {
		same, err := p.old.has(e)
		if err != nil {
			return fmt.Errorf("%s: %w", p.oldFile.Name(), err)
		}
		if same {
			p.d.counts.Same += pageSize
			return p.pagemap.add(vaddr, flags&^flagPresent|flagParent)
		}
	}
	if e.hash == zeroHash && bytes.Equal(data, zeroPage) {
		p.d.counts.Zero += pageSize
	} else {
		p.d.counts.Stored += pageSize
		p.keep(data)
	}
	p.off += pageSize
	return p.pagemap.add(vaddr, flags)
}

// keep moves a page to the others that are to be written, and makes it part of
// the extent before it if no zero pages are between them, or, in a compressed
// file, only a few. The room for those is there: they came in the same block.
func (p *pagesWriter) keep(data []byte) {
	gap := int64(-1)
	if n := len(p.extents); n > 0 {
		gap = p.off - p.extents[n-1].end()
	}
	if gap < 0 || gap > 0 && (p.d.encoder == nil || gap > bridgePages*pageSize) {
		p.extents = append(p.extents, extent{off: p.off})
		gap = 0
	}
	have := len(p.kept)
	p.kept = p.kept[:have+int(gap)+pageSize]
	to := p.kept[have+int(gap):]
	if &to[0] != &data[0] {
		copy(to, data)
	}
	clear(p.kept[have : have+int(gap)])
	p.extents[len(p.extents)-1].length += int(gap) + pageSize
}

func (p *pagesWriter) write() error {
	data := p.kept
	for _, e := range p.extents {
		e.stored = e.length
		e.sum = xxh3.Hash(data[:e.length])
		if _, err := p.pages.WriteAt(data[:e.length], e.off); err != nil {
			return err
		}
		if err := p.sums.add(e); err != nil {
			return err
		}
		data = data[e.length:]
		p.pos = e.end()
	}
	return nil
}

// writeCompressed cuts the extents into frames and compresses some of those at
// the same time.
func (p *pagesWriter) writeCompressed() error {
	var cut []extent
	for _, e := range p.extents {
		for ; e.length > frameSize; e.off, e.length = e.off+frameSize, e.length-frameSize {
			cut = append(cut, extent{off: e.off, length: frameSize})
		}
		cut = append(cut, e)
	}
	for len(p.frames) < len(cut) {
		p.frames = append(p.frames, nil)
	}
	var group errgroup.Group
	group.SetLimit(compressors)
	data := p.kept
	for i := range cut {
		raw := data[:cut[i].length]
		data = data[cut[i].length:]
		group.Go(func() error {
			p.frames[i] = p.d.encoder.EncodeAll(raw, p.frames[i][:0])
			cut[i].stored, cut[i].sum = len(p.frames[i]), xxh3.Hash(p.frames[i])
			return nil
		})
	}
	group.Wait()
	for i, e := range cut {
		if _, err := p.pages.WriteAt(p.frames[i], p.pos); err != nil {
			return err
		}
		if err := p.sums.add(e); err != nil {
			return err
		}
		p.pos += int64(e.stored)
	}
	return nil
}

// push makes the kernel begin to write what has accumulated, which is only a hint: Commit
// makes sure. It fails before the store is full to the last byte: others write there too.
func (p *pagesWriter) push() error {
	if p.pos-p.pushed < writebackStep {
		return nil
	}
	unix.SyncFileRange(int(p.pages.Fd()), p.pushed, p.pos-p.pushed, unix.SYNC_FILE_RANGE_WRITE)
	p.pushed = p.pos
	return checkRoom(p.d.dir, p.d.toCome())
}

// toCome returns how much of what CRIU writes by itself is not written yet.
func (d *dumpWriter) toCome() int64 {
	if d.need == 0 {
		return 0
	}
	left := d.need
	ghosts, _ := image.Named(d.dir, "ghost-file-*") // what is not found there is counted as still to come
	for _, path := range ghosts {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			left -= st.Blocks * 512
		}
	}
	return max(0, left)
}

func (p *pagesWriter) close() error {
	var err error
	for _, flush := range []func() error{p.pagemap.flush, p.index.flush, p.sums.flush} {
		err = errors.Join(err, flush())
	}
	if p.d.encoder == nil {
		err = errors.Join(err, p.pages.Truncate(p.off)) // zero pages at the end
	}
	return errors.Join(err, p.closeFiles())
}
