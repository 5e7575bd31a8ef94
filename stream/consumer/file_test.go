package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/fileset"
)

// A file that is not any more what it was when the stream was opened is no input,
// whoever notices first, and however it is read.
func TestFileChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *os.File, size int64) error
		want   string
	}{
		"shrinks":    {func(f *os.File, _ int64) error { return f.Truncate(100) }, "it shrank from SIZE to 100 bytes while it was read"},
		"is written": {func(f *os.File, _ int64) error { _, err := f.WriteAt([]byte("x"), 0); return err }, "it was written to while it was read"},
		"grows":      {func(f *os.File, size int64) error { _, err := f.WriteAt([]byte("x"), size); return err }, ""},
	} {
		for how := range 4 {
			size := int64(2_000_000)
			if how == 1 {
				size /= 8 // each byte is a call
			}
			data := lines(rand.New(rand.NewPCG(3, 3)), int(size))[:size]
			want := strings.Replace(c.want, "SIZE", fmt.Sprint(size), 1)
			d := newDealer(t, testUnit{path: "/in", data: data, inFile: true}).listen()
			client := dial(t, d, Options{})
			u, err := client.Next(testContext(t))
			must(t, err)
			var b bytes.Buffer
			must(t, u.Use(func(p []byte) (int, error) { return b.Write(p[:10]) }))
			d.look(func() { must(t, c.change(d.input.File, size)) })
			err = read(u, how, &b)
			var de *DataError
			switch {
			case want == "" && (err != nil || !bytes.Equal(b.Bytes(), data)):
				t.Errorf("%s, way %d: %d bytes, %v", name, how, b.Len(), err)
			case want != "" && (!errors.As(err, &de) || err.Error() != "/in cannot be read: "+want):
				t.Errorf("%s, way %d: %v", name, how, err)
			}
		}
	}
}

// TestWrittenAnew: a file that had grown when the consumer got it is written anew after that, and is longer.
func TestWrittenAnew(t *testing.T) {
	for how := range 4 {
		data := lines(rand.New(rand.NewPCG(3, 6)), 250_000)
		d := newDealer(t, testUnit{path: "/in", data: data, inFile: true}).listen()
		d.look(func() {
			_, err := d.inputFile().WriteAt([]byte("more\n"), int64(len(data)))
			must(t, err)
		})
		client := dial(t, d, Options{})
		u, err := client.Next(testContext(t))
		must(t, err)
		var b bytes.Buffer
		must(t, u.Use(func(p []byte) (int, error) { return b.Write(p[:10]) }))
		d.look(func() { must(t, os.WriteFile(d.input.Name(), lines(rand.New(rand.NewPCG(3, 7)), 300_000), 0o600)) })
		var de *DataError
		if err = read(u, how, &b); !errors.As(err, &de) || err.Error() != "/in cannot be read: it was written anew while it was read" {
			t.Errorf("way %d: %v", how, err)
		}
	}
}

// The command does not live to take a part of a file for all of it.
func TestRunFileChanges(t *testing.T) {
	data := lines(rand.New(rand.NewPCG(3, 4)), 4<<20)
	d := newDealer(t, testUnit{path: "/in", data: data, inFile: true}).listen()
	g := newGate(t)
	run := start(t, d, "sh", "-c", `head -c 100; echo ready; until [ -e "$0" ]; do sleep 0.01; done; cat >/dev/null; echo END OF INPUT; sleep 1000`, string(g))
	run.awaitOutput("ready")
	d.look(func() { must(t, d.input.Truncate(1<<20)) })
	g.open(t)
	if code := run.wait(); code != exitInput || !strings.Contains(run.says(), "/in cannot be read: it shrank from") {
		t.Errorf("code %d, %q", code, run.says())
	}
	if f, _ := d.finished(); f.Code != exitInput || !strings.Contains(f.Reason, "it shrank from") {
		t.Errorf("recorded %+v", f)
	}
}

// Where the kernel cannot splice the bytes are copied.
func TestWithoutSplice(t *testing.T) {
	in, err := os.Create(t.TempDir() + "/in")
	must(t, err)
	defer in.Close()
	data := lines(rand.New(rand.NewPCG(3, 5)), 1<<20)
	_, err = in.Write(data)
	must(t, err)
	out, err := os.Create(t.TempDir() + "/out") // is no pipe
	must(t, err)
	defer out.Close()
	a := &arena{file: in}
	a.check.Size = int64(len(data))
	if _, err := spliceSome(int(out.Fd()), a.piece(0, 100)); err != unix.EINVAL {
		t.Fatalf("splice says %v", err)
	}
	f, u := &feeder{}, &Unit{c: &Client{}}
	for at := 0; at < len(data); {
		n, err := f.put(t.Context(), int(out.Fd()), u, a.piece(uint64(at), uint32(len(data)-at)))
		must(t, err)
		at += n
	}
	got, err := os.ReadFile(out.Name())
	must(t, err)
	if !bytes.Equal(got, data) || !f.noSplice {
		t.Errorf("%d bytes came, want %d", len(got), len(data))
	}
}

// TestWrittenToInThePipe: what the command has not read yet is the file's, not a copy.
// Before it sees the end the file is looked at once more.
func TestWrittenToInThePipe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   string
	}{
		"nothing": {func(*testing.T, string) {}, ""},
		"removed": {func(t *testing.T, path string) { must(t, os.Remove(path)) }, ""},
		"another file": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+"x"))
			must(t, os.WriteFile(path, nil, 0o600))
		}, ""},
		"a pipe": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, unix.Mkfifo(path, 0o600))
		}, ""},
		"written to": {func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("other"), 0o600)) }, "shrank from"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/in"
			must(t, os.WriteFile(path, []byte("some records\n"), 0o600))
			in, err := os.Open(path)
			must(t, err)
			defer in.Close()
			was, err := fileset.WasNow(in)
			must(t, err)
			a := &arena{file: in, check: fileset.Check{Was: was}}
			read, w, err := pipe()
			must(t, err)
			defer w.Close()
			f := &feeder{w: w}
			if f.raw, err = w.SyscallConn(); err != nil {
				t.Fatal(err)
			}
			n, err := f.put(t.Context(), int(w.Fd()), &Unit{c: &Client{}, path: path}, a.piece(0, uint32(was.Size)))
			if n != int(was.Size) || err != nil || f.noSplice {
				t.Fatal(n, err)
			}
			c.change(t, path)
			drained := make(chan error, 1)
			go func() { drained <- f.drained(t.Context()) }()
			r := os.NewFile(uintptr(read), "pipe")
			defer r.Close()
			_, err = io.ReadFull(r, make([]byte, was.Size))
			must(t, err)
			err = <-drained
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
