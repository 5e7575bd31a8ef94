package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"headrace/stream/protocol"
)

func gzipped(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name, w.Comment = name, name
	w.Write(data)
	must(t, w.Close())
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	must(t, err)
	w.Write(data)
	must(t, w.Close())
	return b.Bytes()
}

// decode reads one compressed unit through a client.
func decode(t testing.TB, codec protocol.Codec, data []byte) ([]byte, error) {
	t.Helper()
	d := newDealer(t, testUnit{path: "/the/file", codec: codec, data: data})
	c := dial(t, d.listen(), Options{})
	defer c.Close()
	u, err := c.Next(testContext(t))
	must(t, err)
	in, err := u.Open()
	must(t, err)
	defer in.Close()
	return io.ReadAll(in)
}

func TestOpen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b := lines(r, 300000), lines(r, 1000)
	both := append(bytes.Clone(a), b...)
	for name, c := range map[string]struct {
		codec protocol.Codec
		data  []byte
		want  []byte
	}{
		"plain":              {protocol.Plain, both, both},
		"empty plain":        {protocol.Plain, nil, nil},
		"gzip":               {protocol.Gzip, gzipped(t, "", a), a},
		"gzip of nothing":    {protocol.Gzip, gzipped(t, "n", nil), nil},
		"members":            {protocol.Gzip, append(gzipped(t, "a", a), gzipped(t, "b", b)...), both},
		"empty members":      {protocol.Gzip, append(gzipped(t, "", nil), append(gzipped(t, "", b), gzipped(t, "", nil)...)...), b},
		"zeros behind":       {protocol.Gzip, append(gzipped(t, "a", a), make([]byte, 1000)...), a},
		"zstd":               {protocol.Zstd, zstded(t, a), a},
		"frames":             {protocol.Zstd, append(zstded(t, a), zstded(t, b)...), both},
		"zstd of nothing":    {protocol.Zstd, append(zstded(t, nil), zstded(t, nil)...), nil},
		"a frame to be left": {protocol.Zstd, append([]byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), zstded(t, b)...), b},
	} {
		if got, err := decode(t, c.codec, c.data); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(c.want))
		}
	}
}

// What the gzip and zstd programs of this machine write can be read.
func TestOpenWhatProgramsWrite(t *testing.T) {
	data := lines(rand.New(rand.NewPCG(2, 2)), 400000)
	for _, c := range []struct {
		codec   protocol.Codec
		command string
	}{
		{protocol.Gzip, "gzip -9"}, {protocol.Gzip, "pigz"}, {protocol.Zstd, "zstd -19 --long=27"},
		{protocol.Zstd, "zstd -1 --no-check"}, {protocol.Zstd, "pzstd"},
	} {
		argv := strings.Fields(c.command + " -c")
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("%s left out: it is not installed", c.command)
			continue
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = bytes.NewReader(data)
		z, err := cmd.Output()
		must(t, err)
		if got, err := decode(t, c.codec, z); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", c.command, len(got), err)
		}
	}
}

// A file that is cut off anywhere, or changed, is an error that names it, never
// a shorter file.
func TestOpenDamaged(t *testing.T) {
	text := []byte("some text that is long enough to be compressed, compressed, compressed\n")
	for codec, parts := range map[protocol.Codec][][]byte{
		protocol.Gzip: {gzipped(t, "a name", text), gzipped(t, "another", text)},
		protocol.Zstd: {zstded(t, text), zstded(t, text)},
	} {
		whole := append(bytes.Clone(parts[0]), parts[1]...)
		for n := range whole {
			got, err := decode(t, codec, whole[:n])
			if n == len(parts[0]) {
				if err != nil || !bytes.Equal(got, text) {
					t.Errorf("codec %d: the first part alone: %v", codec, err)
				}
				continue
			}
			var de *DataError
			if !errors.As(err, &de) || !strings.Contains(err.Error(), "/the/file") {
				t.Errorf("codec %d, the first %d bytes: %d bytes, %v", codec, n, len(got), err)
			}
		}
		for n := range parts[0] {
			bad := bytes.Clone(whole)
			bad[n] ^= 0x20
			if got, err := decode(t, codec, bad); err == nil && !bytes.Equal(got, append(bytes.Clone(text), text...)) {
				t.Errorf("codec %d, byte %d changed: %q", codec, n, got)
			}
		}
		for _, garbage := range []string{"x", "garbage behind the end of it", "\x00\x00x"} {
			if got, err := decode(t, codec, append(bytes.Clone(whole), garbage...)); err == nil {
				t.Errorf("codec %d with %q behind it: %d bytes", codec, garbage, len(got))
			}
		}
		if got, err := decode(t, codec, []byte("\x00\x00\x00")); err == nil {
			t.Errorf("codec %d: zeros are taken for a file of %d bytes", codec, len(got))
		}
	}
}

// A connection that is lost for good is not taken for a damaged file.
func TestOpenAndTheStreamEnds(t *testing.T) {
	z := gzipped(t, "", lines(rand.New(rand.NewPCG(3, 3)), 100000))
	d := newDealer(t, testUnit{path: "/f", codec: protocol.Gzip, data: z, piece: 50})
	var pieces atomic.Int64
	d.fault = func(ev event) action {
		if _, ok := ev.m.(*protocol.Piece); ok {
			if pieces.Add(1) == 20 {
				return refuse
			}
		}
		return goOn
	}
	c := dial(t, d.listen(), Options{})
	u, err := c.Next(testContext(t))
	must(t, err)
	in, err := u.Open()
	must(t, err)
	defer in.Close()
	_, err = io.Copy(io.Discard, in)
	var se *StreamError
	if !errors.As(err, &se) {
		t.Errorf("%v", err)
	}
}

// Decompression goes on in the middle after the connection was lost.
func TestOpenOverConnections(t *testing.T) {
	data := lines(rand.New(rand.NewPCG(4, 4)), 200000)
	for codec, z := range map[protocol.Codec][]byte{protocol.Gzip: gzipped(t, "", data), protocol.Zstd: zstded(t, data)} {
		d := newDealer(t, testUnit{path: "/f", codec: codec, data: z, piece: 300})
		var count atomic.Int64 // old and new connections ask at the same time
		d.fault = func(ev event) action {
			if _, ok := ev.m.(*protocol.Piece); ok {
				if n := count.Add(1); n%7 == 6 {
					return []action{drop, cut, restart}[n%3]
				}
			}
			return goOn
		}
		c := dial(t, d.listen(), Options{})
		u, err := c.Next(testContext(t))
		must(t, err)
		in, err := u.Open()
		must(t, err)
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("codec %d: %d bytes, %v", codec, len(got), err)
		}
		must(t, in.Close())
		must(t, c.Close())
		d.look(func() {
			if h := d.attemptOf(0, 1).hellos; h < 3 {
				t.Errorf("codec %d: connected only %d times", codec, h)
			}
		})
	}
}

func ExampleDataError() {
	fmt.Println(&DataError{"/data/a.gz", protocol.Gzip, io.ErrUnexpectedEOF})
	// Output: /data/a.gz cannot be decompressed (gzip: unexpected EOF): it is damaged or incomplete
}
