package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"headrace/internal/vfs"
)

// index is a file that says what is in the combined files, so that they need not all be
// opened at the start. It has records of headerLen bytes: what the index is, then the
// header of each region of the files in it, then, appended as they happen, files that it
// is to forget, because they are about to change. So a file in the index is as the index
// says, and the headers of all others are read at the start. New files, which are most,
// cost the index nothing.
//
// It can be lost at any time: anything unusual about it, and all headers are read.
type index struct {
	mu   sync.Mutex
	file vfs.File // nil: there is none
	size int64
	// has are the files in it, also those that are not there any more: another may come
	// under the same name.
	has map[uint64]struct{}
	// renewing: another is being written, and pending are files that it, too, must forget.
	renewing bool
	pending  []uint64
}

const indexName = "index"

var (
	indexMagic  = [8]byte{'H', 'R', 'i', 'n', 'd', 'e', 'x', '1'}
	forgetMagic = [8]byte{'H', 'R', 'f', 'o', 'r', 'g', 'e', 't'}
)

// record encodes magic, up to headerLen-12 bytes, and a checksum.
func record(magic [8]byte, content []byte) []byte {
	b := make([]byte, headerLen)
	copy(b, magic[:])
	copy(b[8:headerLen-4], content)
	binary.BigEndian.PutUint32(b[headerLen-4:], sum(b[:headerLen-4]))
	return b
}

func isRecord(magic [8]byte, b []byte) bool {
	return bytes.Equal(b[:8], magic[:]) && binary.BigEndian.Uint32(b[headerLen-4:]) == sum(b[:headerLen-4])
}

// indexHead is the first record of an index.
type indexHead struct {
	disk    [16]byte
	regions uint64
	// scrubbed is the last file that has been looked through.
	scrubbed uint64
}

func (i *indexHead) record() []byte {
	b := append([]byte(nil), i.disk[:]...)
	b = binary.BigEndian.AppendUint64(b, i.regions)
	return record(indexMagic, binary.BigEndian.AppendUint64(b, i.scrubbed))
}

var errIndex = errors.New("no index of this disk")

// parseIndex reads an index: what it knows of which files.
func parseIndex(b []byte, disk [16]byte) (files map[uint64][]header, scrubbed uint64, err error) {
	if len(b) < headerLen || len(b)%headerLen != 0 || !isRecord(indexMagic, b[:headerLen]) || !bytes.Equal(b[8:24], disk[:]) {
		return nil, 0, errIndex
	}
	regions, scrubbed := binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])
	b = b[headerLen:]
	if regions > uint64(len(b)/headerLen) {
		return nil, 0, errIndex
	}
	files = map[uint64][]header{}
	for ; regions > 0; regions-- {
		h, err := parseHeader(b)
		if err != nil || h.disk != disk || h.kind != final && h.kind != gone {
			return nil, 0, errIndex
		}
		files[h.file] = append(files[h.file], h)
		b = b[headerLen:]
	}
	for ; len(b) > 0; b = b[headerLen:] {
		if !isRecord(forgetMagic, b[:headerLen]) {
			return nil, 0, errIndex
		}
		delete(files, binary.BigEndian.Uint64(b[8:]))
	}
	return files, scrubbed, nil
}

func forgetRecord(file uint64) []byte {
	return record(forgetMagic, binary.BigEndian.AppendUint64(nil, file))
}

// forget notes durably that a file is about to change.
func (x *index) forget(v *volume, file uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.renewing {
		x.pending = append(x.pending, file)
	}
	if _, has := x.has[file]; !has {
		return nil
	}
	f, at := x.file, x.size
	if err := v.do(changing, func() error { _, err := f.WriteAt(forgetRecord(file), at); return err }); err != nil {
		return err
	}
	x.size += headerLen
	if err := v.do(syncing, f.Sync); err != nil {
		return err
	}
	delete(x.has, file)
	return nil
}

// knows reports whether a file is in the index.
func (x *index) knows(file uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, has := x.has[file]
	return has
}

// renew writes a new index. collect hands over the headers of the files that belong into
// it; a file that changes after it was handed over is forgotten in the new index, too.
func (x *index) renew(v *volume, scrubbed uint64, at func(string), collect func(put func([]header) error) error) error {
	x.mu.Lock()
	if x.renewing {
		x.mu.Unlock()
		return nil
	}
	x.renewing, x.pending = true, nil
	x.mu.Unlock()
	w := indexWriter{v: v, size: headerLen, has: map[uint64]struct{}{}}
	err := w.create()
	if err == nil {
		err = collect(w.put)
	}
	if err == nil {
		err = w.flush()
	}
	at("index.written")
	x.mu.Lock()
	defer x.mu.Unlock()
	x.renewing = false
	if err == nil {
		for _, file := range x.pending {
			w.buf = append(w.buf, forgetRecord(file)...)
			delete(w.has, file)
		}
		err = w.finish(scrubbed, at)
	}
	if err != nil {
		if w.file != nil {
			v.do(reading, w.file.Close)
		}
		return err
	}
	if x.file != nil {
		v.do(reading, x.file.Close)
	}
	x.file, x.size, x.has = w.file, w.size, w.has
	return nil
}

// indexWriter writes an index beside the one that is there.
type indexWriter struct {
	v       *volume
	file    vfs.File
	buf     []byte
	size    int64
	regions uint64
	has     map[uint64]struct{}
}

func (w *indexWriter) path() string { return filepath.Join(w.v.dir, indexName) }

func (w *indexWriter) create() error {
	got := make(chan vfs.File, 1)
	err := w.v.do(changing, func() error {
		f, err := w.v.fs.Open(w.path()+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err == nil {
			got <- f
		}
		return err
	})
	if err == nil {
		w.file = <-got
	}
	return err
}

func (w *indexWriter) put(headers []header) error {
	for i := range headers {
		w.buf = headers[i].append(w.buf)
		w.regions++
		w.has[headers[i].file] = struct{}{}
	}
	if len(w.buf) > 1<<20 {
		return w.flush()
	}
	return nil
}

func (w *indexWriter) flush() error {
	buf, at := w.buf, w.size
	w.buf = nil
	w.size += int64(len(buf))
	return w.v.do(changing, func() error { _, err := w.file.WriteAt(buf, at); return err })
}

// finish makes the index durable and gives it its name.
func (w *indexWriter) finish(scrubbed uint64, at func(string)) error {
	if err := w.flush(); err != nil {
		return err
	}
	head := indexHead{w.v.id, w.regions, scrubbed}
	if err := w.v.do(changing, func() error { _, err := w.file.WriteAt(head.record(), 0); return err }); err != nil {
		return err
	}
	if err := w.v.do(syncing, w.file.Sync); err != nil {
		return err
	}
	at("index.durable")
	return w.v.do(syncing, func() error {
		if err := w.v.fs.Rename(w.path()+".new", w.path()); err != nil {
			return err
		}
		return w.v.fs.SyncDir(w.v.dir)
	})
}
