package web

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"headrace/dfs"
	"headrace/hdfs/xfer"
	"headrace/meta"
)

// data are the operations that move bytes. Each is redirected first.
var data = table{
	"GET OPEN":            redirected((*request).checkOpen, (*request).open),
	"GET GETFILECHECKSUM": redirected(func(r *request) error { _, err := r.found(); return err }, (*request).fileChecksum),
	"PUT CREATE":          redirected((*request).checkCreate, (*request).create),
	"POST APPEND":         redirected((*request).checkAppend, (*request).append),
}

// redirected sends a client that has not been here yet to this node once more, after a look whether that makes sense.
func redirected(check func(*request) error, run operation) operation {
	return func(r *request) (any, error) {
		if r.flag("data", false) {
			return run(r)
		}
		if err := check(r); err != nil {
			return nil, err
		}
		if r.err != nil {
			return nil, r.err
		}
		to := (&url.URL{Scheme: "http", Host: r.reached(), Path: r.r.URL.Path, RawPath: r.r.URL.RawPath, RawQuery: r.r.URL.RawQuery + "&data=true"}).String()
		if r.flag("noredirect", false) {
			return list{"Location": to}, nil
		}
		r.w.Header().Set("Location", to)
		r.w.Header().Set("Content-Type", "application/octet-stream")
		r.w.Header().Set("Content-Length", "0")
		r.w.WriteHeader(http.StatusTemporaryRedirect)
		return served, nil
	}
}

// reached is the address by which the client has reached this node.
func (r *request) reached() string {
	if r.r.Host != "" {
		return r.r.Host
	}
	return r.r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() // HTTP 1.0
}

func (r *request) found() (*meta.Status, error) { return r.stat("File " + r.path + " not found.") }

func (r *request) checkOpen() error {
	offset, _ := r.part()
	s, err := r.found()
	if err != nil {
		return err
	}
	if s.Size > 0 && offset >= s.Size {
		return thrown(classIO, "Offset=%d out of the range [0, %d); OPEN, path=%s", offset, s.Size, r.path)
	}
	if s.Size == 0 {
		return nil
	}
	return r.ask(func(q meta.Query) error { _, err := q.Blocks(r.path, offset, 1); return err })
}

// checkCreate refuses what a new file cannot have.
func (r *request) checkCreate() error {
	if p := r.text("ecpolicy"); p != "" && p != "replication" {
		return thrown(classUnsupported, noCoding)
	}
	if p := r.text("storagepolicy"); p != "" && !strings.EqualFold(p, "HOT") {
		return thrown(classUnsupported, noPolicies)
	}
	return nil
}

func (r *request) checkAppend() error {
	if strings.Contains(r.path, ":") {
		return thrown(classInvalidPath, "Invalid path name %s", r.path)
	}
	s, err := r.found()
	if err != nil || s.Size == 0 {
		return err
	}
	return r.ask(func(q meta.Query) error { _, err := q.Blocks(r.path, s.Size-1, 1); return err })
}

// open sends a part of a file.
func (r *request) open() (any, error) {
	offset, length := r.part()
	if r.err != nil {
		return nil, r.err
	}
	f, err := r.Node.OpenFile(r.by, r.path, offset, length)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if offset > f.Size {
		return nil, thrown("java.io.EOFException", "Cannot seek after EOF")
	}
	var p []byte
	if f.Left() > 0 { // what cannot be read at all is an exception
		if p, err = f.Next(r.r.Context()); err != nil {
			return nil, err
		}
	}
	r.w.Header().Set("Content-Type", "application/octet-stream")
	r.w.Header().Set("Content-Length", strconv.FormatInt(int64(len(p))+f.Left(), 10))
	for len(p) > 0 {
		if err := r.sendBytes(p); err != nil {
			return served, nil
		}
		if p, err = f.Next(r.r.Context()); err != nil && !errors.Is(err, io.EOF) {
			r.Log.Warn("a file cannot be read to its end", "path", r.path, "err", err)
			panic(http.ErrAbortHandler) // the client sees that bytes are missing
		}
	}
	return served, nil
}

const (
	mostPart   = 256 << 10 // how many bytes a client has SendTime to take
	bufferSize = 64 << 10  // for those that it sends
)

func (r *request) sendBytes(p []byte) error {
	for len(p) > 0 {
		patience(r.w, r.SendTime)
		n := min(len(p), mostPart)
		if _, err := r.w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// machine is the client's.
func (r *request) machine() string {
	host, _, _ := net.SplitHostPort(r.r.RemoteAddr)
	return host
}

func (r *request) create() (any, error) {
	if err := r.checkCreate(); err != nil {
		return nil, err
	}
	mode, asked := r.mode(0o644)
	if asked == nil { // clients of HDFS apply a umask, which drops the sticky bit, and send both
		all := mode
		mode, asked = mode&0o777, &all
	}
	c := meta.Create{Path: r.path, Mode: mode, Asked: asked, Machine: r.machine(), Flags: meta.FlagCreate, Parents: r.flag("createparent", true),
		Replication: r.copies(r.Node.Places().Default()), BlockSize: r.number("blocksize", 10, 1, math.MaxInt64, 128<<20)}
	sync := false
	for f := range strings.SplitSeq(strings.ToUpper(r.text("createflag")), ",") {
		switch f {
		case "OVERWRITE":
			c.Flags |= meta.FlagOverwrite
		case "SYNC_BLOCK":
			sync = true
		}
	}
	if r.flag("overwrite", false) {
		c.Flags |= meta.FlagOverwrite
	}
	if r.err != nil {
		return nil, r.err
	}
	w, err := r.Node.Create(r.r.Context(), r.by, c, sync)
	if err == nil {
		err = r.fill(w)
	}
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("Location", (&url.URL{Scheme: "webhdfs", Host: r.reached(), Path: r.path}).String())
	r.w.Header().Set("Content-Length", "0")
	r.w.WriteHeader(http.StatusCreated)
	return served, nil
}

func (r *request) append() (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	w, err := r.Node.Append(r.r.Context(), r.by, r.path, r.machine())
	if err == nil {
		err = r.fill(w)
	}
	return nil, err
}

// fill writes the body to a file, and closes it at what has come of that.
func (r *request) fill(w *dfs.Writer) error {
	buf := make([]byte, bufferSize)
	var err error
	for err == nil {
		var n int
		n, err = r.r.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// fileChecksum is the MD5 of the MD5s of the checksums of blocks, which HDFS's clients compute as well (FileChecksumHelper).
func (r *request) fileChecksum() (any, error) {
	var l *meta.Located
	if err := r.ask(func(q meta.Query) (err error) { l, err = q.Blocks(r.path, 0, math.MaxInt64); return err }); err != nil {
		return nil, err
	}
	var blocks []byte
	var perBlock uint64
	for i, b := range l.Blocks {
		if i == 0 && len(l.Blocks) > 1 {
			perBlock = uint64(b.Size+xfer.Chunk-1) / xfer.Chunk
		}
		sum, err := r.Node.Keeper.Checksum(r.r.Context(), b)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, sum...)
	}
	perSum, kind := uint32(xfer.Chunk), "CRC32C"
	if len(blocks) == 0 {
		perSum, kind = 0, "CRC32"
	}
	// The client has a buffer that doubles from 32 bytes on, and takes the MD5 of all of it.
	room := max(32, 1<<bits.Len(uint(max(1, len(blocks))-1)))
	sum := md5.Sum(append(blocks, make([]byte, room-len(blocks))...))
	all := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, perSum), perBlock)
	return list{"FileChecksum": list{"algorithm": fmt.Sprintf("MD5-of-%dMD5-of-%d%s", perBlock, perSum, kind), "bytes": hex.EncodeToString(append(all, sum[:]...)), "length": 28}}, nil
}
